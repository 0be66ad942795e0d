package trial

import (
	"context"
	"path"

	"github.com/org/rollout-action/internal/run/trial/access"
)

// openGateway opens the agent's gateway to its model. It returns nil if the agent has no model.
func (x *agentRun) openGateway(ctx context.Context) (*access.Gateway, error) {
	if x.spec.Agent.Model == "" {
		return nil, nil
	}
	o := access.Options{
		Agent: x.spec.Agent, Model: x.opts.Models[x.spec.Agent.Model], Budget: x.budget(), Name: x.sessionName(), Reply: x.role.judges, Restricted: !x.networks.Agent.Public(),
		Provider: x.opts.Provider.Name(), Record: &x.Record, Calls: x.role.calls, Step: x.spec.Task.StepName(),
	}
	if !x.isShell() {
		o.Environment = x.live.env
	}
	if budget := x.opts.Budget; budget != nil {
		o.Purse, o.Spend = budget, func(usd float64) { budget.Spend(x.spec.Key, usd) }
	}
	return access.Open(ctx, o)
}

// sessionName returns the name under which exchanges with the model are recorded.
func (p *plan) sessionName() string {
	return path.Join(p.spec.Key.Dir(), p.role.below)
}

// endGateway ends the agent's access to its model, if it has one; see access.Gateway.End.
func (x *agentRun) endGateway(g *access.Gateway, failed error) error {
	if g == nil {
		return failed
	}
	x.gateway = g
	return g.End(failed, x.agentBegan, x.timeouts.Execute)
}

// closeGateway closes the agent's gateway, if it has one.
func (x *agentRun) closeGateway(context.Context) {
	if x.gateway != nil {
		x.gateway.Close()
	}
}
