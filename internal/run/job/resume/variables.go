package resume

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/trial/experiment"
)

// VariableDrift returns differences that Drift cannot see: when the kept results were made, host
// variables that are no secrets (redact.except) had other values. in has the current values, and
// tasks returns the tasks of results.
func (j Job) VariableDrift(pending Pending, cfg config.Job, in experiment.Inputs, tasks func(result.Key) *task.Task) []Change {
	// Keys that do not matter may have changed since, so a result may also have the digests of the
	// stored configuration.
	now, was := experiment.DigestsOf(cfg, in), experiment.DigestsOf(j.Config, in)
	// Keys that may change are in the digest of the configuration, too, so digests can only be
	// compared if those keys are the same.
	comparable := now.Config == was.Config && len(in.Passed) > 0
	others, otherPassed := map[string]int{}, 0
	for _, t := range pending.Earlier {
		if pending.Keys[t.Key] || pending.Confirmations[t.Key] {
			continue
		}
		if d := t.AgentDigest; d != "" && d != now.Agents[t.Agent] && d != was.Agents[t.Agent] {
			others[t.Agent]++
		}
		if d := t.ConfigDigest; comparable && d != "" && d != now.ConfigOf(tasks(t.Key)) && t.Reused == nil && j.sinceResumed(t) {
			otherPassed++
		}
	}
	var out []Change
	for _, name := range slices.Sorted(maps.Keys(others)) {
		out = append(out, Change{Key: "agents." + name + ".env", Message: fmt.Sprintf(
			"%s from another agent: one of its variables%s had another value, or redact.except named others%s", resultsAre(others[name]), listed(in.Visible[name]), recordingsOf(cfg, name))})
	}
	if otherPassed > 0 {
		out = append(out, Change{Key: "environment.pass_env", Message: fmt.Sprintf("%s with other values of the variables%s", resultsAre(otherPassed), listed(in.Passed))})
	}
	return out
}

// recordingsOf names the recordings that an agent's model answers from, as another reason for
// different digests; "" if it has none.
func recordingsOf(cfg config.Job, name string) string {
	for _, a := range cfg.Agents {
		if dir := cfg.Models[a.Model].Replay; a.Name == name && dir != "" {
			return fmt.Sprintf(", or the recordings of its model (models.%s.replay) were others", a.Model)
		}
	}
	return ""
}

// sinceResumed reports whether a trial began after the job was last resumed.
func (j Job) sinceResumed(t result.Trial) bool {
	n := len(j.Plan.Resumed)
	return n == 0 || !t.Timestamps.StartedAt.Before(j.Plan.Resumed[n-1].At)
}

func resultsAre(n int) string {
	if n == 1 {
		return "1 result that stays is"
	}
	return fmt.Sprintf("%d results that stay are", n)
}

// listed returns the names of variables in parentheses, after a space.
func listed(variables map[string]string) string {
	if len(variables) == 0 {
		return ""
	}
	return " (" + strings.Join(slices.Sorted(maps.Keys(variables)), ", ") + ")"
}
