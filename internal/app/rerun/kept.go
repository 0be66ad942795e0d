package rerun

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/trial"
	"github.com/org/rollout-action/internal/run/trial/combine"
	"github.com/org/rollout-action/internal/run/trial/judging"
	"github.com/org/rollout-action/internal/run/trial/services"
)

// KeptEnvironments returns the ids of the environments of a provider that were kept.
func KeptEnvironments(ctx context.Context, provider environment.Provider) (map[string]bool, error) {
	if _, ok := environment.As[environment.Restorer](provider); !ok {
		return nil, host.Usagef("the provider %s cannot continue with environments that were kept", host.Clean(provider.Name()))
	}
	listed, err := provider.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("look for the environments that were kept: %w", err)
	}
	kept := map[string]bool{}
	for _, l := range listed {
		kept[l.ID] = l.Kept
	}
	return kept, nil
}

// Advice for a job of whose environments nothing was kept.
const (
	NothingKept       = "nothing of the environment was kept"
	adviceToKeep      = ": run jobs whose tests may change with environment.keep: outcome, or let tasks keep artifacts"
	adviceToRun       = ": rollout run runs trials again, with their agent"
	adviceOfArtifacts = " from its environments: use the artifacts that there are, with --from artifacts"
)

// ChooseKept chooses between a trial's kept outcome and its environment after the tests.
// preferOutcome decides if both exist. reason is why neither can be used, or "".
func ChooseKept(t result.Trial, provider string, kept map[string]bool, preferOutcome bool) (outcome bool, reason string) {
	e := t.Environment
	switch {
	case t.Reused != nil:
		return false, "the result was taken over from another job, " + t.Reused.From + ": verify that one"
	case t.Reverified != nil:
		return false, "the result is one of rollout verify: verify " + t.Reverified.From + " again"
	case e == nil || e.Outcome == nil && (!e.Preserved || e.ID == ""):
		return false, NothingKept
	case e.Provider != provider:
		return false, "the environment is one of the provider " + e.Provider
	}
	hasOutcome := e.Outcome != nil && kept[e.Outcome.ID]
	hasEnvironment := e.Preserved && e.ID != "" && kept[e.ID]
	if !hasOutcome && !hasEnvironment {
		return false, "the kept environment was removed, or is on another machine"
	}
	return hasOutcome && (preferOutcome || !hasEnvironment), ""
}

// noArtifacts returns why the artifacts of a trial are not all that its task and the job collect,
// or "".
func noArtifacts(s trial.Spec, job config.Job, t result.Trial) string {
	wanted := s.WantedArtifacts(job)
	kept := ofTests(s, wanted, t.Artifacts)
	switch {
	case t.Reused != nil:
		return "the result was taken over from another job, " + t.Reused.From + ": verify that one"
	case len(kept) == 0:
		return "there are no artifacts (artifacts in task.toml or the job file)"
	case len(kept) != len(wanted):
		return "some artifacts of the task are missing"
	}
	for i, a := range kept {
		switch {
		case a.Source != wanted[i].Source:
			return "the list of artifacts has changed since"
		case len(wanted[i].Exclude) > 0:
			return "the artifact " + a.Source + " leaves files out (exclude)"
		case a.Incomplete:
			return "the artifact " + a.Source + " could not be copied whole"
		}
	}
	return ""
}

// ofTests returns the artifacts of a trial without those that only its judges want.
func ofTests(s trial.Spec, wanted []task.Artifact, kept []result.Artifact) []result.Artifact {
	return slices.DeleteFunc(slices.Clone(kept), func(a result.Artifact) bool {
		ofJudge := slices.ContainsFunc(slices.Concat(s.Judges, s.GroupJudges), func(j judging.Judge) bool {
			return slices.ContainsFunc(j.Artifacts, func(p string) bool { return path.Clean(p) == a.Source })
		})
		return ofJudge && !slices.ContainsFunc(wanted, func(w task.Artifact) bool { return w.Source == a.Source })
	})
}

// kept holds the environments that a provider has kept.
type kept struct {
	provider string
	ids      map[string]bool
}

// keptBy asks a provider for the environments that it has kept, if any are wanted.
func (v *verifying) keptBy(ctx context.Context, provider environment.Provider) (k kept, err error) {
	k.provider = provider.Name()
	_, restores := environment.As[environment.Restorer](provider)
	apart := slices.ContainsFunc(v.Specs, func(s trial.Spec) bool { return testsApart(s, v.Job) })
	if v.req.Artifacts || !restores && apart {
		return k, nil
	}
	k.ids, err = KeptEnvironments(ctx, provider)
	return k, err
}

// testsApart reports whether the tests of a trial, or of a step of its task, run in another
// environment than the agent.
func testsApart(s trial.Spec, job config.Job) bool {
	for _, step := range s.Task.Steps() {
		own := s
		if own.Task = step; own.TestsApart(job) {
			return true
		}
	}
	return len(s.Task.Config.Steps) == 0 && s.TestsApart(job)
}

// refused says why a trial cannot be verified again, and what to do, as the continuation of a
// sentence. The zero value: it can.
type refused struct{ reason, advice string }

// over returns the advice for a job of which other trials have another one.
func (r refused) over(other string) string {
	if r.advice == adviceOfArtifacts {
		return r.advice
	}
	return cmp.Or(other, r.advice)
}

// decide returns how a trial is verified again, or why it cannot be. It returns nil if the trial
// ended before its tests.
func (v *verifying) decide(s trial.Spec, t result.Trial, k kept) (*trial.Again, refused) {
	wanted, why := trial.StepsAgain(s, v.Job, t)
	switch {
	case why != "":
		return nil, refused{why, adviceToRun}
	case !trial.CanVerifyAgain(s, v.Job, t):
		return nil, refused{}
	}
	again := &trial.Again{Job: v.stored.Plan.JobName, From: v.Reverifies, Before: t}
	if len(s.Task.Config.Steps) == 0 {
		how, not := v.choose(s, t, k, nil)
		again.Outcome, v.artifacts[s.Key] = how.Outcome, how.Artifacts
		return again, not
	}
	steps := s.Task.Steps()[:len(t.Steps)]
	for i, step := range steps {
		how := trial.StepAgain{Ended: !wanted[i]}
		if wanted[i] {
			var not refused
			own := s
			own.Task = step
			if how, not = v.choose(own, combine.Trial(t, i), k, steps[:i+1]); not.reason != "" {
				not.reason = "at the end of its step " + step.StepName() + ", " + not.reason
				return nil, not
			}
		}
		again.Steps = append(again.Steps, how)
		v.artifacts[s.Key] = v.artifacts[s.Key] || how.Artifacts
	}
	return again, refused{}
}

// choose chooses what the tests of a trial run on. s and t may be those of a step, the last of
// steps. Tests that run apart have nothing of the agent's but the artifacts, so these are enough.
func (v *verifying) choose(s trial.Spec, t result.Trial, k kept, steps []*task.Task) (trial.StepAgain, refused) {
	missing := noArtifacts(s, v.Job, t)
	apart := s.TestsApart(v.Job)
	if missing == "" && !apart {
		missing = withoutWorkDir(steps)
	}
	if v.req.Artifacts {
		return trial.StepAgain{Artifacts: true}, refused{reason: missing}
	}
	outcome, reason := ChooseKept(t, k.provider, k.ids, true)
	withServices := services.Needed(s.Task)
	switch {
	case reason == "" && !withServices:
		return trial.StepAgain{Outcome: outcome}, refused{}
	case apart && missing == "":
		return trial.StepAgain{Artifacts: true}, refused{}
	case reason == "":
		return trial.StepAgain{}, refused{"the services of its docker-compose.yaml are not kept", adviceToRun}
	case reason != NothingKept:
		return trial.StepAgain{}, refused{reason: reason}
	case missing == "":
		return trial.StepAgain{}, refused{reason + ", but its artifacts are: --from artifacts uses them", adviceOfArtifacts}
	}
	return trial.StepAgain{}, refused{reason + " (environment.keep: outcome keeps the agents' files)", adviceToKeep}
}

// withoutWorkDir returns why artifacts are not enough for the tests of the last of the steps: a new
// environment lacks the files that they have for the working directory. It returns "" if there are
// none.
func withoutWorkDir(steps []*task.Task) string {
	for _, step := range steps {
		if files, _, err := step.WorkDir(); files != nil || err != nil {
			return "a new environment has no files of steps/" + step.StepName() + "/workdir"
		}
	}
	return ""
}
