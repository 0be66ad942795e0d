package trial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/quantity"
	"github.com/org/rollout-action/internal/redact"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/trajectory"
)

// maxTrajectory bounds the record of a trial's model calls, in bytes.
const maxTrajectory = 512 << 20

// gateway is an agent's access to its model while its execute script runs.
type gateway struct {
	session  *model.Session
	listener net.Listener
	file     *os.File
	env      map[string]string
}

// openGateway gives the agent access to its model; nil if it has none.
func (x *execution) openGateway(ctx context.Context) (*gateway, error) {
	name := x.spec.Agent.Model
	if name == "" {
		return nil, nil
	}
	m := x.opts.Models[name]
	if m == nil {
		return nil, failf(result.GatewayFailed, "the model %q is not there", name)
	}
	listener, err := environment.ListenLoopback(ctx, x.live.env)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, failf(result.GatewayFailed, "the provider %s cannot lead to a model: use docker or sandbox, or remove model from the agent", x.opts.Provider.Name())
	}
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(x.dir, result.TrajectoryFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		listener.Close()
		return nil, environment.MarkMachineError(err)
	}
	b := x.spec.Agent.Budget
	recorder := model.NewRecorder(redacted{file, x.secrets}, maxTrajectory)
	session := model.NewSession(model.Options{
		Model: m, Restricted: !x.networks.Agent.Public(), Conversations: true, Keep: recorder.Record,
		Budget: model.Budget{
			MaxTurns: int64(b.MaxTurns), MaxInputTokens: int64(b.MaxInputTokens), MaxOutputTokens: int64(b.MaxOutputTokens),
			MaxTotalTokens: int64(b.MaxTotalTokens), MaxCostUSD: b.MaxCostUSD,
		},
	})
	go session.Serve(listener)
	return &gateway{session: session, listener: listener, file: file, env: m.API.Environment("http://"+listener.Addr().String(), session.Token(), m.Upstream)}, nil
}

// redacted hides secrets in what is written. Each write is a whole line.
type redacted struct {
	file    *os.File
	secrets *redact.Redactor
}

func (r redacted) Write(line []byte) (int, error) {
	if _, err := r.file.Write(r.secrets.Bytes(line)); err != nil {
		return 0, environment.MarkMachineError(err)
	}
	return len(line), nil
}

// variables returns the agent's variables with those of the gateway, which it cannot replace.
func (g *gateway) variables(env map[string]string) map[string]string {
	if g == nil {
		return env
	}
	env = maps.Clone(env)
	maps.Copy(env, g.env)
	return env
}

// close ends the gateway itself.
func (g *gateway) close() {
	if g != nil {
		g.session.Close()
		g.listener.Close()
	}
}

// closeGateway ends the agent's access to its model and records what it used. It returns how the agent ended, in which failed is the error
// of its script, or nil: that the model failed it, or that a budget ended it, which is no error.
func (x *execution) closeGateway(g *gateway, failed error) error {
	if g == nil {
		return failed
	}
	r := g.session.Seal() // it refuses what comes later, until the environment ends
	x.gateway = g
	if err := g.file.Close(); err != nil && r.Failure == nil {
		r.Failure = &model.Failure{Kind: model.FailedGateway, Message: err.Error()}
	}
	x.trial.Usage = &result.Usage{
		Turns: r.Turns, Calls: r.Calls, Failed: r.Failed, Refused: r.Refused,
		InputTokens: r.Usage.Input, CachedTokens: r.Usage.Cached, CacheWriteTokens: r.Usage.CacheWrite, OutputTokens: r.Usage.Output, ReasoningTokens: r.Usage.Reasoning,
		ModelSec: result.Seconds(r.ModelTime), FirstByteSec: result.Seconds(r.FirstByte), WaitingSec: result.Seconds(r.Waiting), Requested: r.Asked, Answered: r.Answered,
	}
	if r.Cost != nil {
		x.trial.Costs.Model = x.trial.Costs.Model.Plus(result.Dollars(*r.Cost))
	}
	x.warnOfModel(r)
	if err := x.writeTrajectory(); err != nil {
		x.warn("%s could not be written: %v; %s has the calls", result.ATIFFile, err, result.TrajectoryFile)
	}
	x.trial.IsTruncated = r.Truncated
	var ended *failure
	agentFailed := errors.As(failed, &ended) && ended.Type == result.AgentExecutionFailed
	switch {
	case r.Stop == model.StopEmpty:
		return failf(result.ModelEmptyResponse, "ten answers of the model %s in a row were empty, so the agent got no more: see %s", x.spec.Agent.Model, result.TrajectoryFile)
	case r.Stop != "":
		x.trial.StopCondition, x.trial.IsTruncated = string(r.Stop), true
		if agentFailed {
			return nil // it could not go on
		}
	case r.Failure == nil || !agentFailed:
	case r.Failure.Kind == model.FailedOverflow:
		x.trial.StopCondition, x.trial.IsTruncated = string(model.StopContext), true
		return nil
	default:
		return x.modelFailure(ended, r.Failure)
	}
	return failed
}

// maxConverted bounds the record of which a trajectory is made, in bytes: all of it is in memory then.
const maxConverted = 64 << 20

// writeTrajectory writes the recorded calls, which are redacted, as a trajectory.
func (x *execution) writeTrajectory() error {
	f, err := os.Open(filepath.Join(x.dir, result.TrajectoryFile))
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > maxConverted {
		return fmt.Errorf("the record has more than %s", quantity.Text(maxConverted))
	}
	t, err := trajectory.Convert(f, trajectory.About{ID: x.spec.Key.String(), Agent: x.spec.Agent.Name})
	if errors.Is(err, trajectory.ErrEmpty) {
		return nil
	}
	if err != nil {
		return err
	}
	text, err := result.Marshal(t)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(x.dir, result.ATIFFile), text, 0o644)
}

// modelFailure returns the failure of an agent whose last call of the model failed.
func (x *execution) modelFailure(ended *failure, f *model.Failure) error {
	kind := result.ModelFailed
	what := "the model %s failed last"
	switch f.Kind {
	case model.FailedUnreachable:
		kind, what = result.ModelUnreachable, "the model %s could not be reached"
	case model.FailedGateway:
		kind, what = result.GatewayFailed, "the gateway to the model %s failed"
	case model.FailedLimit:
		what = "the model %s refused because of its rate limit"
	}
	status := ""
	if f.Status != 0 && f.Kind != model.FailedCut {
		status = fmt.Sprintf(" with HTTP status %d", f.Status)
	}
	return failf(kind, what+"%s: %s; %s", x.spec.Agent.Model, status, f.Message, ended.Message)
}

// warnOfModel warns of what a reader of the result should know about the agent's calls.
func (x *execution) warnOfModel(r model.Report) {
	if r.Calls == 0 && r.Refused == 0 {
		hint := "does it use ROLLOUT_MODEL_URL and ROLLOUT_MODEL_KEY?"
		if r.Foreign != "" {
			hint = fmt.Sprintf("it asked for %s, which is of another API than the model's: give it a model with that API", r.Foreign)
		}
		x.warn("the agent made no call of its model: %s", hint)
	}
	if r.Unpriced > 0 {
		x.warn("the cost of %d of %d calls of the model %s is not known: set its price in models", r.Unpriced, r.Calls, x.spec.Agent.Model)
	}
	if len(r.Stripped) > 0 {
		x.warn("tools that the provider of the model runs were removed from requests, because the network is restricted: %q", r.Stripped)
	}
}
