package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/agent/presets"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/trajectory"
	"github.com/org/rollout-action/internal/run/trial/failure"
)

// maxTrajectory limits the record of a trial's model calls, in bytes.
const maxTrajectory = 512 << 20

// gateway is an agent's access to its model while its execute script runs.
type gateway struct {
	session  *model.Session
	listener net.Listener // nil: no process in the environment uses it
	record   model.Record
	lines    *redacted
	env      map[string]string
}

// openGateway opens the agent's gateway to its model. It returns nil if the agent has no model.
func (x *agentRun) openGateway(ctx context.Context) (*gateway, error) {
	name := x.spec.Agent.Model
	if name == "" {
		return nil, nil
	}
	m := x.opts.Models[name]
	if m == nil {
		return nil, failure.Newf(result.GatewayFailed, "the model %q is not there", name)
	}
	var listener net.Listener // nil: the agent is in this process
	var err error
	if !x.isShell() {
		listener, err = environment.ListenLoopback(ctx, x.live.env)
	}
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, failure.Newf(result.GatewayFailed, "the provider %s cannot lead to a model: use docker or sandbox, or remove model from the agent", x.opts.Provider.Name())
	}
	if err != nil {
		return nil, x.noGateway(ctx, err)
	}
	lines, keep, err := x.recorder(m.Record)
	if err != nil {
		if listener != nil {
			listener.Close()
		}
		return nil, x.noGateway(ctx, environment.MarkMachineError(err))
	}
	b := x.budget()
	session := model.NewSession(model.Options{
		Model: m, Name: x.sessionName(), Reply: x.role.judges, Restricted: !x.networks.Agent.Public(), Conversations: recordsMessages(m.Record), Keep: x.spending(keep), Purse: x.purse(),
		Budget: model.Budget{
			MaxTurns: int64(b.MaxTurns), MaxInputTokens: int64(b.MaxInputTokens), MaxOutputTokens: int64(b.MaxOutputTokens),
			MaxTotalTokens: int64(b.MaxTotalTokens), MaxCostUSD: b.MaxCostUSD,
		},
	})
	if listener == nil {
		return &gateway{session: session, record: m.Record, lines: lines}, nil
	}
	go session.Serve(listener)
	env := x.protocol(m).Environment("http://"+listener.Addr().String(), session.Token(), m.Upstream)
	if m.ThirdParty() {
		env[presets.ThirdPartyVar] = "1"
	}
	return &gateway{session: session, listener: listener, record: m.Record, lines: lines, env: env}, nil
}

// sessionName returns the name under which exchanges with the model are recorded.
func (p *plan) sessionName() string {
	return path.Join(p.spec.Key.Dir(), p.role.below)
}

func recordsMessages(r model.Record) bool { return r == "" || r == model.RecordMessages }

// recorder opens the record of the trial's calls.
func (x *agentRun) recorder(kind model.Record) (*redacted, func(model.Turn) error, error) {
	name := result.TrajectoryFile
	if kind == model.RecordNone {
		name = result.CallCostsFile
	}
	file, err := os.OpenFile(filepath.Join(x.dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, nil, err
	}
	lines := &redacted{file: file, secrets: x.secrets}
	if kind == model.RecordNone {
		return lines, model.NewCostRecorder(lines).Record, nil
	}
	return lines, model.NewRecorder(lines, maxTrajectory).Record, nil
}

// noGateway returns the failure of an agent that could not get access to its model. The trial did
// not cause it, so it starts over.
func (x *agentRun) noGateway(ctx context.Context, err error) error {
	if ctx.Err() != nil || environment.KindOf(err) == environment.KindLost || environment.MachineFault(err) != nil {
		return err
	}
	f := failure.Newf(result.GatewayFailed, "the agent could not get access to the model %s: %s", x.spec.Agent.Model, failure.Brief(err, x.secrets))
	f.Detail, f.Again = err.Error(), true
	return f
}

// purse returns the job's budget; nil if there is none.
func (x *agentRun) purse() model.Purse {
	if x.opts.Budget == nil {
		return nil
	}
	return x.opts.Budget
}

// spending returns a function that reports a turn's cost to the job's budget and then calls keep.
func (x *agentRun) spending(keep func(model.Turn) error) func(model.Turn) error {
	return func(t model.Turn) error {
		if x.opts.Budget != nil && t.Cost != nil {
			x.opts.Budget.Spend(x.spec.Key, *t.Cost)
		}
		return keep(t)
	}
}

// protocol returns the protocol that the agent uses. A scripted model supports all, so a preset
// gets its own: the one with token ids, if they are recorded.
func (x *agentRun) protocol(m *model.Model) model.API {
	known, ok := presets.Get(x.spec.Agent.Preset)
	switch {
	case !ok || m.API != model.Scripted || len(known.APIs) == 0:
		return m.API
	case m.Tokens && slices.Contains(known.APIs, string(model.OpenAIChat)):
		return model.OpenAIChat
	}
	return model.API(known.APIs[0])
}

// redacted is a writer that hides secrets. Each write is a whole line. Token ids stand for texts,
// and secrets cannot be hidden in them: those of the first turn with a secret are left out, and
// those of all later turns, whose prompts may repeat it.
type redacted struct {
	file    *os.File
	secrets *redact.Redactor
	found   bool // a secret was found
	dropped bool // token ids were left out
}

func (r *redacted) Write(line []byte) (int, error) {
	hidden := r.secrets.Bytes(line)
	if !bytes.Equal(hidden, line) {
		r.found = true
	}
	if r.found {
		if bare := model.WithoutTokens(line); len(bare) != len(line) {
			hidden = r.secrets.Bytes(bare)
			r.dropped = true
		}
	}
	if _, err := r.file.Write(hidden); err != nil {
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

// close closes the gateway.
func (g *gateway) close() {
	if g == nil {
		return
	}
	g.session.Close()
	if g.listener != nil {
		g.listener.Close()
	}
}

// closeGateway ends the agent's access to its model and records its usage. failed is the error of
// the agent's script, or nil. It returns the agent's error: it may be the model's failure instead,
// or nil if a budget ended the agent.
func (x *agentRun) closeGateway(g *gateway, failed error) error {
	if g == nil {
		return failed
	}
	r := g.session.Seal() // the session refuses later requests, until the environment ends
	x.gateway = g
	if g.lines.dropped {
		x.warn("the ids of tokens are not recorded from the turn on in which a secret was hidden (record_tokens): they would tell it")
	}
	if err := g.lines.file.Close(); err != nil && r.Failure == nil {
		r.Failure = &model.Failure{Kind: model.FailedGateway, Message: err.Error()}
	}
	x.trial.Usage = &result.Usage{
		Turns: r.Turns, Calls: r.Calls, Failed: r.Failed, Refused: r.Refused, Unpriced: r.Unpriced, Estimated: r.Estimated,
		InputTokens: r.Usage.Input, CachedTokens: r.Usage.Cached, CacheWriteTokens: r.Usage.CacheWrite, OutputTokens: r.Usage.Output, ReasoningTokens: r.Usage.Reasoning,
		ModelSec: result.Seconds(r.ModelTime), FirstByteSec: result.Seconds(r.FirstByte), WaitingSec: result.Seconds(r.Waiting), Requested: r.Asked, Answered: x.hideNames(r.Answered),
	}
	if r.Cost != nil {
		x.trial.Costs.Model = x.trial.Costs.Model.Plus(result.Dollars(*r.Cost))
	}
	if !x.trial.Usage.Exact() {
		x.trial.Costs.Model = x.trial.Costs.Model.LowerBound()
	}
	x.warnOfModel(r)
	if recordsMessages(g.record) {
		if err := x.writeTrajectory(); err != nil {
			x.warn("%s could not be written: %v; %s has the calls", result.ATIFFile, err, result.TrajectoryFile)
		}
	}
	x.trial.IsTruncated = r.Truncated
	var ended *failure.Error
	agentFailed := errors.As(failed, &ended) && ended.Type == result.AgentExecutionFailed
	switch {
	case r.Stop == model.StopEmpty && r.Failure != nil && r.Failure.Kind != model.FailedEmpty:
		return failure.Newf(result.ModelFailed, "ten answers in a row broke off or were empty, so the agent got no more; %s", x.lastFailure(r.Failure))
	case r.Stop == model.StopEmpty:
		return failure.Newf(result.ModelEmptyResponse, "ten answers of the model %s in a row were empty, so the agent got no more", x.spec.Agent.Model)
	case r.Stop == model.StopMissed:
		return failure.Newf(result.ReplayMissed, "the model %s has no recorded answer to a request of the agent: %s", x.spec.Agent.Model, r.Missed)
	case r.Stop == model.StopJobCost:
		x.trial.StopCondition, x.trial.IsTruncated = string(r.Stop), true
		if failed == nil || agentFailed || errors.Is(failed, environment.ErrTimeout) {
			return failure.Newf(result.Cancelled, "%v, so the agent got no more of its model", ErrOutOfMoney) // its work then allows no verdict on it
		}
	case r.Stop == model.StopTurns && agentFailed && r.Failure != nil && r.Failure.ByProvider():
		return x.modelFailure(ended, r.Failure) // its failures have used up the turns
	case r.Stop != "":
		x.trial.StopCondition, x.trial.IsTruncated = string(r.Stop), true
		if agentFailed {
			return nil // it could not continue
		}
	case r.Failure != nil && r.Failure.Kind == model.FailedLimit && errors.Is(failed, environment.ErrTimeout):
		return failure.Newf(result.ModelFailed, "%s; the agent's timeout of %v seconds ended first", x.lastFailure(r.Failure), x.timeouts.Execute.Seconds())
	case r.Failure == nil || failed != nil && !agentFailed:
	case r.Failure.Kind == model.FailedRefused: // the agent has sent a forbidden request, which is its own failure
	case r.Failure.Kind == model.FailedOverflow:
		x.trial.StopCondition, x.trial.IsTruncated = string(model.StopContext), true
		return nil
	case failed == nil: // some agents always end with exit code 0
		x.warn("%s; the agent ended with exit code 0 all the same, so its reward counts", x.lastFailure(r.Failure))
	default:
		return x.modelFailure(ended, r.Failure)
	}
	return failed
}

// hideNames returns the names that a model stated, without secrets, each once.
func (x *agentRun) hideNames(names []string) []string {
	var out []string
	for _, name := range names {
		if name = failure.Hide(x.secrets, name); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// writeTrajectory writes the recorded calls, which are redacted, as a trajectory.
func (x *agentRun) writeTrajectory() error {
	f, err := os.Open(filepath.Join(x.dir, result.TrajectoryFile))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	err = result.WriteFrom(filepath.Join(x.dir, result.ATIFFile), func(w io.Writer) error {
		return trajectory.Convert(w, io.NewSectionReader(f, 0, info.Size()), trajectory.About{ID: x.spec.Key.String(), Agent: x.spec.Agent.Name})
	})
	if errors.Is(err, trajectory.ErrEmpty) {
		return nil
	}
	return err
}

// modelFailure returns the failure of an agent whose last model call failed.
func (x *agentRun) modelFailure(ended *failure.Error, f *model.Failure) error {
	kind := result.ModelFailed
	switch f.Kind {
	case model.FailedUnreachable:
		kind = result.ModelUnreachable
	case model.FailedGateway:
		kind = result.GatewayFailed
	}
	return failure.Newf(kind, "%s; %s", x.lastFailure(f), ended.Message)
}

// lastFailure describes the failure of the last model call.
func (x *agentRun) lastFailure(f *model.Failure) string {
	what := "the model %s failed last"
	switch f.Kind {
	case model.FailedUnreachable:
		what = "the model %s could not be reached"
	case model.FailedGateway:
		what = "the gateway to the model %s failed"
	case model.FailedLimit:
		what = "the model %s refused because of its rate limit"
		if f.Status == 0 { // the request waited for others
			what = "the model %s was not asked"
		}
	}
	status := ""
	if f.Status != 0 && f.Kind != model.FailedCut {
		status = fmt.Sprintf(" with HTTP status %d", f.Status)
	}
	return fmt.Sprintf(what+"%s: %s", x.spec.Agent.Model, status, f.Message)
}

// warnOfModel adds warnings about the agent's model calls.
func (x *agentRun) warnOfModel(r model.Report) {
	if r.Calls == 0 && r.Refused == 0 && len(r.Denied) == 0 && x.agentBegan {
		hint := "does it use ROLLOUT_MODEL_URL and ROLLOUT_MODEL_KEY?"
		if r.Strange > 0 {
			hint = fmt.Sprintf("%s came with another key: let it use ROLLOUT_MODEL_KEY, and no key of its own in env or in a file", plural.Count(int(r.Strange), "request"))
		}
		if r.Foreign != "" {
			hint = fmt.Sprintf("it asked for %s, which is of another API than the model's: give it a model with that API", r.Foreign)
		}
		x.warn("the agent made no call of its model: %s", hint)
	} else if r.Strange > 0 && x.agentBegan {
		x.warn("%s of the agent came with another key than ROLLOUT_MODEL_KEY and got no answer: see that each client that it starts uses that key", plural.Count(int(r.Strange), "request"))
	}
	others := slices.DeleteFunc(x.hideNames(r.Answered), func(name string) bool { return model.SameModel(r.Asked, name) })
	if len(others) > 0 {
		x.warn("the model %s was asked for as %q, but its provider answered as %q", x.spec.Agent.Model, r.Asked, others)
	}
	x.warnOfUsage(r)
	if x.opts.Models[x.spec.Agent.Model].Tokens {
		x.warnOfTokens(r)
	}
	tools, files := x.hideNames(r.Stripped), []string(nil)
	tools = slices.DeleteFunc(tools, func(name string) bool {
		file := strings.HasSuffix(name, " by URL")
		if file {
			files = append(files, name)
		}
		return file
	})
	if len(tools) > 0 {
		x.warn("tools that the provider of the model runs were removed from requests, because the network is restricted: %q", tools)
	}
	if len(files) > 0 {
		x.warn("pictures and files that the provider of the model fetches were removed from requests, because the network is restricted: %q", files)
	}
	if len(r.Removed) > 0 {
		x.warn("fields that name other models or accounts were removed from requests: %q", x.hideNames(r.Removed))
	}
	for _, reason := range r.Denied {
		x.warn("a request of the agent was not passed on to the model %s: %s", x.spec.Agent.Model, failure.Hide(x.secrets, reason))
	}
}

// warnOfUsage adds warnings about numbers that are not exact.
func (x *agentRun) warnOfUsage(r model.Report) {
	name := x.spec.Agent.Model
	if n := r.Unpriced - r.PartlyPriced; n > 0 {
		x.warn("the cost of %d of %d calls of the model %s is not known: set its price in models", n, r.Calls, name)
	}
	if r.PartlyPriced > 0 {
		x.warn("the cost of %d of %d calls of the model %s is a lower bound: its price in models says nothing of a part of what they used", r.PartlyPriced, r.Calls, name)
	}
	if r.Estimated > 0 {
		x.warn("the tokens of %d of %d calls of the model %s are estimated from bytes, because its provider did not state them, or the answer broke off before: tokens and cost are lower bounds", r.Estimated, r.Calls, name)
	}
	if r.Contradictory > 0 {
		x.warn("the usage that the provider of the model %s stated contradicts itself in %d of %d calls: %s", name, r.Contradictory, r.Calls, r.Contradiction)
	}
}

// warnOfTokens adds warnings about data that record_tokens did not get.
func (x *agentRun) warnOfTokens(r model.Report) {
	name := x.spec.Agent.Model
	if r.Untold > 0 {
		x.warn("%d of %d answers of the model %s came without the ids of their tokens (record_tokens): its server must know return_token_ids, and the agent must speak openai-chat", r.Untold, r.Turns, name)
	}
	if r.Unlikely > 0 {
		x.warn("%d of %d answers of the model %s came without a log probability for each token (record_tokens)", r.Unlikely, r.Turns, name)
	}
	if f := r.Failure; f != nil && f.Kind == model.FailedProvider && (f.Status == http.StatusBadRequest || f.Status == http.StatusUnprocessableEntity) {
		x.warn("the model %s refused a request to which record_tokens had added return_token_ids and logprobs: if its server does not know them, remove record_tokens", name)
	}
}
