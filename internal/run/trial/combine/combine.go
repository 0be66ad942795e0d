// Package combine combines the steps of a trial whose task has steps: their rewards, errors, costs
// and files. It runs nothing.
package combine

import (
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/trial/reward"
)

// rewards returns the rewards of a step by name; nil if it has none.
func rewards(s result.StepRun) map[string]float64 {
	switch {
	case s.Reward == nil:
		return nil
	case s.Rewards == nil:
		return map[string]float64{reward.Main: *s.Reward}
	}
	return s.Rewards
}

// Unmet returns which reward of a step is too low for the next step to begin: "reward is 0.5, and
// less than 1"; "" if none is. Source: Harbor 0.26, src/harbor/trial/multi_step.py.
func Unmet(least map[string]float64, s result.StepRun) string {
	got := rewards(s)
	for _, name := range slices.Sorted(maps.Keys(least)) {
		value, ok := got[name]
		switch {
		case !ok:
			return fmt.Sprintf("there is no %s, which must be at least %s", name, number(least[name]))
		case value < least[name]:
			return fmt.Sprintf("%s is %s, and must be at least %s", name, number(value), number(least[name]))
		}
	}
	return ""
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// Ended reports whether no step may follow a step: it has failed, and has no reward.
func Ended(s result.StepRun) bool { return s.Error != nil && s.Reward == nil }

// Rewards sets the rewards of a trial from those of its steps, as its task's strategy says. A step
// without a reward leaves the trial without one, unless partial is set: then the mean is that of
// the others, as in Harbor, if the step's failure says something about the agent or the task.
// Source: Harbor 0.26, src/harbor/trial/trial.py.
func Rewards(t *result.Trial, strategy string, partial bool) {
	if !counts(t, partial) {
		return
	}
	var all map[string]float64
	named := false
	if strategy == task.FinalReward {
		last := t.Steps[len(t.Steps)-1]
		all, named = rewards(last), last.Rewards != nil
	} else {
		all = mean(t.Steps)
		named = slices.ContainsFunc(t.Steps, func(s result.StepRun) bool { return s.Rewards != nil })
	}
	if len(all) == 0 {
		return
	}
	t.Reward = new(reward.Of(all))
	if named {
		t.Rewards = maps.Clone(all)
	}
}

// counts reports whether the rewards of the steps say something about the whole trial.
func counts(t *result.Trial, partial bool) bool {
	for _, s := range t.Steps {
		if e := s.Error; e != nil && s.Reward == nil {
			if !partial || e.Type.Infrastructure() && e.Type != result.EnvironmentStartFailed {
				return false
			}
		}
	}
	return len(t.Steps) > 0
}

// mean returns the mean of each reward over the steps with rewards. A missing one counts as 0.
func mean(steps []result.StepRun) map[string]float64 {
	sums, n := map[string]float64{}, 0.0
	for _, s := range steps {
		got := rewards(s)
		if got == nil {
			continue
		}
		n++
		for name, value := range got {
			sums[name] += value
		}
	}
	for name, sum := range sums {
		if sums[name] = sum / n; math.IsInf(sums[name], 0) {
			sums[name] = math.Copysign(math.MaxFloat64, sum)
		}
	}
	return sums
}

// Of returns the record of a step, which ran as a trial with the result t.
func Of(name string, t *result.Trial) result.StepRun {
	s := result.StepRun{
		Name: name, Reward: t.Reward, Rewards: t.Rewards, Error: t.Error, StartedAt: t.Timestamps.StartedAt, EndedAt: t.Timestamps.EndedAt,
		SetupSec: t.Durations.EnvironmentSetupSec, AgentExecutionSec: t.Durations.AgentExecutionSec, VerifierSec: t.Durations.VerifierSec,
		Usage: t.Usage, Cost: t.Costs.Model, StopCondition: t.StopCondition, IsTruncated: t.IsTruncated, VerifierExitCode: t.VerifierExitCode,
		Artifacts: slices.Clone(t.Artifacts),
	}
	dir := result.StepDir(name)
	for i := range s.Artifacts {
		for _, at := range []*string{&s.Artifacts[i].Path, &s.Artifacts[i].Links, &s.Artifacts[i].Entries} {
			if *at != "" {
				*at = path.Join(dir, *at)
			}
		}
	}
	if t.Environment != nil {
		s.Verifier, s.Outcome = t.Environment.Verifier, t.Environment.Outcome
	}
	return s
}

// Trial returns the record of step i, from 0, of a trial as a trial with the step's rewards, error,
// artifacts and environment.
func Trial(t result.Trial, i int) result.Trial {
	s := t.Steps[i]
	out := result.Trial{
		Key: t.Key, TaskDigest: t.TaskDigest, AgentDigest: t.AgentDigest, Reused: t.Reused, Reverified: t.Reverified,
		Reward: s.Reward, Rewards: s.Rewards, Error: s.Error, Artifacts: s.Artifacts,
	}
	out.Timestamps.StartedAt, out.Timestamps.EndedAt = s.StartedAt, s.EndedAt
	out.Durations.AgentExecutionSec, out.Durations.VerifierSec = s.AgentExecutionSec, s.VerifierSec
	if t.Environment != nil {
		where := *t.Environment
		where.Outcome, where.Verifier = s.Outcome, s.Verifier
		if i < len(t.Steps)-1 { // it went on
			where.Preserved = false
		}
		out.Environment = &where
	}
	return out
}

// Add adds a step s, which ran as a trial with the result ran, to the result of its trial, except
// its error and its rewards.
func Add(t *result.Trial, s result.StepRun, ran *result.Trial) {
	t.Steps = append(t.Steps, s)
	for _, w := range ran.Warnings {
		t.Warnings = append(t.Warnings, Label(s.Name)+w)
	}
	t.Retries = append(t.Retries, ran.Retries...)
	dir := result.StepDir(s.Name)
	for _, o := range ran.Omitted {
		t.Omitted = append(t.Omitted, result.Omission{Path: path.Join(dir, o.Path), Reason: o.Reason})
	}
	for _, r := range ran.Renamed {
		t.Renamed = append(t.Renamed, result.Rename{From: r.From, To: path.Join(dir, r.To)})
	}
	t.Costs = t.Costs.Plus(ran.Costs)
	t.Usage = t.Usage.Plus(ran.Usage)
	if t.StopCondition == "" {
		t.StopCondition = ran.StopCondition
	}
	t.IsTruncated = t.IsTruncated || ran.IsTruncated
	if ran.VerifierExitCode != nil {
		t.VerifierExitCode = ran.VerifierExitCode
	}
	t.Artifacts = s.Artifacts // as the last step left them
	addTimes(t, ran)
	if t.Environment == nil {
		return
	}
	t.Environment.Outcome = s.Outcome
	if s.Verifier != nil {
		t.Environment.Verifier = s.Verifier
	}
}

// Label begins a message about a step.
func Label(name string) string { return "step " + name + ": " }

// addTimes adds the durations of a step's phases. When they began is in the record of the step.
func addTimes(t, ran *result.Trial) {
	for _, d := range []struct{ to, from **float64 }{
		{&t.Durations.AgentExecutionSec, &ran.Durations.AgentExecutionSec}, {&t.Durations.VerifierSec, &ran.Durations.VerifierSec},
	} {
		switch {
		case *d.from == nil:
		case *d.to == nil:
			*d.to = new(**d.from)
		default:
			*d.to = new(**d.to + **d.from)
		}
	}
}
