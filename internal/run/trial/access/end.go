package access

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/gateway"
	"github.com/org/rollout-action/internal/model/trajectory"
	"github.com/org/rollout-action/internal/run/trial/failure"
)

// End ends the agent's access to its model and records its usage. began reports whether the agent
// has begun, and limit is its timeout. failed is the error of the agent's script, or nil. End
// returns the agent's error: it may be the model's failure instead, or nil if a budget ended the
// agent. The session refuses later requests until Close.
func (g *Gateway) End(failed error, began bool, limit time.Duration) error {
	r := g.session.Seal()
	if g.lines.dropped {
		g.record.Warn("the ids of tokens are not recorded from the turn on in which a secret was hidden (record_tokens): they would tell it")
	}
	if err := g.lines.file.Close(); err != nil && r.Failure == nil {
		r.Failure = &model.Failure{Kind: model.FailedGateway, Message: err.Error()}
	}
	g.addUsage(r)
	g.warnOfModel(r, began)
	if recordsMessages(g.model.Record) {
		if err := g.writeTrajectory(); err != nil {
			g.record.Warn("%s could not be written: %v; %s has the calls", result.ATIFFile, err, result.TrajectoryFile)
		}
	}
	g.record.Trial.IsTruncated = r.Truncated
	return g.outcome(r, failed, limit)
}

// addUsage records the usage and the cost of the agent's calls.
func (g *Gateway) addUsage(r gateway.Report) {
	g.record.Trial.Usage = &result.Usage{
		Turns: r.Turns, Calls: r.Calls, Failed: r.Failed, Refused: r.Refused, Unpriced: r.Unpriced, Estimated: r.Estimated,
		InputTokens: r.Usage.Input, CachedTokens: r.Usage.Cached, CacheWriteTokens: r.Usage.CacheWrite, OutputTokens: r.Usage.Output, ReasoningTokens: r.Usage.Reasoning,
		ModelSec: result.Seconds(r.ModelTime), FirstByteSec: result.Seconds(r.FirstByte), WaitingSec: result.Seconds(r.Waiting), Requested: r.Asked, Answered: g.hideNames(r.Answered),
	}
	if r.Cost != nil {
		g.record.Trial.Costs.Model = g.record.Trial.Costs.Model.Plus(result.Dollars(*r.Cost))
	}
	if !g.record.Trial.Usage.Exact() {
		g.record.Trial.Costs.Model = g.record.Trial.Costs.Model.LowerBound()
	}
}

// outcome returns the agent's error, of which its calls may have been the cause.
func (g *Gateway) outcome(r gateway.Report, failed error, limit time.Duration) error {
	var ended *failure.Error
	agentFailed := errors.As(failed, &ended) && ended.Type == result.AgentExecutionFailed
	switch {
	case r.Stop == model.StopEmpty && r.Failure != nil && r.Failure.Kind != model.FailedEmpty:
		return failure.Newf(result.ModelFailed, "ten answers in a row broke off or were empty, so the agent got no more; %s", g.lastFailure(r.Failure))
	case r.Stop == model.StopEmpty:
		return failure.Newf(result.ModelEmptyResponse, "ten answers of the model %s in a row were empty, so the agent got no more", g.agent.Model)
	case r.Stop == model.StopMissed:
		return failure.Newf(result.ReplayMissed, "the model %s has no recorded answer to a request of the agent: %s", g.agent.Model, r.Missed)
	case r.Stop == model.StopJobCost:
		g.record.Trial.StopCondition, g.record.Trial.IsTruncated = string(r.Stop), true
		if failed == nil || agentFailed || errors.Is(failed, environment.ErrTimeout) {
			return failure.Newf(result.Cancelled, "%v, so the agent got no more of its model", failure.ErrOutOfMoney) // its work then allows no verdict on it
		}
	case r.Stop == model.StopTurns && agentFailed && r.Failure != nil && r.Failure.ByProvider():
		return g.modelFailure(ended, r.Failure) // its failures have used up the turns
	case r.Stop != "":
		g.record.Trial.StopCondition, g.record.Trial.IsTruncated = string(r.Stop), true
		if agentFailed {
			return nil // it could not continue
		}
	case r.Failure != nil && r.Failure.Kind == model.FailedLimit && errors.Is(failed, environment.ErrTimeout):
		return failure.Newf(result.ModelFailed, "%s; the agent's timeout of %v seconds ended first", g.lastFailure(r.Failure), limit.Seconds())
	case r.Failure == nil || failed != nil && !agentFailed:
	case r.Failure.Kind == model.FailedRefused: // the agent has sent a forbidden request, which is its own failure
	case r.Failure.Kind == model.FailedOverflow:
		g.record.Trial.StopCondition, g.record.Trial.IsTruncated = string(model.StopContext), true
		return nil
	case failed == nil: // some agents always end with exit code 0
		g.record.Warn("%s; the agent ended with exit code 0 all the same, so its reward counts", g.lastFailure(r.Failure))
	default:
		return g.modelFailure(ended, r.Failure)
	}
	return failed
}

// hideNames returns the names that a model stated, without secrets, each once.
func (g *Gateway) hideNames(names []string) []string {
	var out []string
	for _, name := range names {
		if name = failure.Hide(g.record.Secrets, name); !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// writeTrajectory writes the recorded calls, which are redacted, as a trajectory.
func (g *Gateway) writeTrajectory() error {
	f, err := os.Open(filepath.Join(g.dir, result.TrajectoryFile))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	err = result.WriteFrom(filepath.Join(g.dir, result.ATIFFile), func(w io.Writer) error {
		return trajectory.Convert(w, io.NewSectionReader(f, 0, info.Size()), trajectory.About{ID: g.record.Trial.Key.String(), Agent: g.agent.Name})
	})
	if errors.Is(err, trajectory.ErrEmpty) {
		return nil
	}
	return err
}

// modelFailure returns the failure of an agent whose last model call failed.
func (g *Gateway) modelFailure(ended *failure.Error, f *model.Failure) error {
	kind := result.ModelFailed
	switch f.Kind {
	case model.FailedUnreachable:
		kind = result.ModelUnreachable
	case model.FailedGateway:
		kind = result.GatewayFailed
	}
	return failure.Newf(kind, "%s; %s", g.lastFailure(f), ended.Message)
}

// lastFailure describes the failure of the last model call.
func (g *Gateway) lastFailure(f *model.Failure) string {
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
	return fmt.Sprintf(what+"%s: %s", g.agent.Model, status, f.Message)
}

// warnOfModel adds warnings about the agent's model calls.
func (g *Gateway) warnOfModel(r gateway.Report, began bool) {
	if r.Calls == 0 && r.Refused == 0 && len(r.Denied) == 0 && began {
		hint := "does it use ROLLOUT_MODEL_URL and ROLLOUT_MODEL_KEY?"
		if r.Strange > 0 {
			hint = fmt.Sprintf("%s came with another key: let it use ROLLOUT_MODEL_KEY, and remove other keys from env and from its files", plural.Count(int(r.Strange), "request"))
		}
		if r.Foreign != "" {
			hint = fmt.Sprintf("it asked for %s, which is of another API than the model's: give it a model with that API", r.Foreign)
		}
		g.record.Warn("the agent made no call of its model: %s", hint)
	} else if r.Strange > 0 && began {
		g.record.Warn("%s of the agent came with another key than ROLLOUT_MODEL_KEY and got no answer: see that each client that it starts uses that key", plural.Count(int(r.Strange), "request"))
	}
	others := slices.DeleteFunc(g.hideNames(r.Answered), func(name string) bool { return model.SameModel(r.Asked, name) })
	if len(others) > 0 {
		g.record.Warn("the model %s was asked for as %q, but its provider answered as %q", g.agent.Model, r.Asked, others)
	}
	g.warnOfUsage(r)
	if g.model.Tokens {
		g.warnOfTokens(r)
	}
	tools, files := g.hideNames(r.Stripped), []string(nil)
	tools = slices.DeleteFunc(tools, func(name string) bool {
		file := strings.HasSuffix(name, " by URL")
		if file {
			files = append(files, name)
		}
		return file
	})
	if len(tools) > 0 {
		g.record.Warn("tools that the provider of the model runs were removed from requests, because the network is restricted: %q", tools)
	}
	if len(files) > 0 {
		g.record.Warn("pictures and files that the provider of the model fetches were removed from requests, because the network is restricted: %q", files)
	}
	if len(r.Removed) > 0 {
		g.record.Warn("fields that name other models or accounts were removed from requests: %q", g.hideNames(r.Removed))
	}
	for _, reason := range r.Denied {
		g.record.Warn("a request of the agent was not passed on to the model %s: %s", g.agent.Model, failure.Hide(g.record.Secrets, reason))
	}
}

// warnOfUsage adds warnings about numbers that are not exact.
func (g *Gateway) warnOfUsage(r gateway.Report) {
	name := g.agent.Model
	if n := r.Unpriced - r.PartlyPriced; n > 0 {
		g.record.Warn("the cost of %d of %d calls of the model %s is not known: set its price in models", n, r.Calls, name)
	}
	if r.PartlyPriced > 0 {
		g.record.Warn("the cost of %d of %d calls of the model %s is a lower bound: its price in models does not cover all that they used", r.PartlyPriced, r.Calls, name)
	}
	if r.Estimated > 0 {
		g.record.Warn("the tokens of %d of %d calls of the model %s are estimated from bytes, because its provider did not state them, or the answer broke off before: tokens and cost are lower bounds", r.Estimated, r.Calls, name)
	}
	if r.Contradictory > 0 {
		g.record.Warn("the usage that the provider of the model %s stated contradicts itself in %d of %d calls: %s", name, r.Contradictory, r.Calls, r.Contradiction)
	}
}

// warnOfTokens adds warnings about data that record_tokens did not get.
func (g *Gateway) warnOfTokens(r gateway.Report) {
	name := g.agent.Model
	if r.Untold > 0 {
		g.record.Warn("%d of %d answers of the model %s came without the ids of their tokens (record_tokens): its server must know return_token_ids, and the agent must speak openai-chat", r.Untold, r.Turns, name)
	}
	if r.Unlikely > 0 {
		g.record.Warn("%d of %d answers of the model %s came without a log probability for each token (record_tokens)", r.Unlikely, r.Turns, name)
	}
	if f := r.Failure; f != nil && f.Kind == model.FailedProvider && (f.Status == http.StatusBadRequest || f.Status == http.StatusUnprocessableEntity) {
		g.record.Warn("the model %s refused a request to which record_tokens had added return_token_ids and logprobs: if its server does not know them, remove record_tokens", name)
	}
}
