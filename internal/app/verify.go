package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/nofollow"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/job/linktree"
	"github.com/org/rollout-action/internal/run/job/reuse"
	"github.com/org/rollout-action/internal/run/trial"
	"github.com/org/rollout-action/internal/run/trial/artifacts"
)

// VerifyRequest is the request of Verify.
type VerifyRequest struct {
	Dir       string     // of the job whose trials are verified again
	Trials    []string   // parts of the names of trials; empty: all
	JobFile   string     // as in ResumeRequest
	Job       JobRequest // without File
	Name      string     // of the new job; "": that of the old one, with "-verified"
	Artifacts bool       // use the trials' artifacts, in new environments, instead of their kept environments
	CarryOver bool       // take over the old results of trials that cannot be verified again
	Report    ReportOptions
}

// Verify runs the current tests of a job's trials again, on what the trials kept: their outcomes,
// or else their environments. The results go into a new job next to the old one, which does not
// change. The Finished is as in Run.
func Verify(ctx context.Context, h *Host, req VerifyRequest) (*Finished, error) {
	var err error
	if req.Report, err = req.Report.checkedEarly(ctx, h.finder()); err != nil {
		return nil, err
	}
	v, err := planVerify(ctx, h, req)
	if err != nil {
		return nil, err
	}
	defer v.close()
	h.Output.Warnings(v.Warnings)
	provider, err := v.connect(ctx, "")
	if err != nil {
		return nil, err
	}
	defer provider.Close()
	if err := v.sort(ctx, provider); err != nil {
		return nil, err
	}
	o, err := v.open(ctx, provider, nil)
	if err != nil {
		return nil, err
	}
	o.todo = v.again
	o.runner = func(r job.Runner) job.Runner { return withEvidence{r, h.Path(req.Dir), req.Artifacts} }
	o.earlier, err = reuse.TakeOver(ctx, o.tree, v.carried, job.Instructions(o.own(), redact.New(o.Secrets)))
	if err != nil && ctx.Err() == nil {
		return nil, errors.Join(err, o.tree.Close())
	}
	return o.run(ctx, nil)
}

// verifying is a job that is verified again.
type verifying struct {
	*sequel
	req VerifyRequest
}

// planVerify plans the new job.
func planVerify(ctx context.Context, h *Host, req VerifyRequest) (*verifying, error) {
	again := ResumeRequest{Dir: req.Dir, JobFile: req.JobFile, Job: req.Job, Report: req.Report}
	again.Job.unused = true
	q, err := planSequel(ctx, h, again, req.Trials, "verified")
	if err == nil && q.judges != nil { // whose models need their keys
		q.close()
		again.Job.unused = false
		q, err = planSequel(ctx, h, again, req.Trials, "verified")
	}
	if err != nil {
		return nil, err
	}
	v := &verifying{sequel: q, req: req}
	v.Job.Verifier.Disable, v.Job.Budget = false, config.Budget{}
	if err := v.place(req.Name, "-verified"); err != nil {
		v.close()
		return nil, err
	}
	return v, nil
}

// sort decides which trials are verified again or taken over, and reports those that cannot be
// verified.
func (v *verifying) sort(ctx context.Context, provider environment.Provider) error {
	var kept map[string]bool
	if !v.req.Artifacts {
		var err error
		if kept, err = keptEnvironments(ctx, provider); err != nil {
			return err
		}
	}
	before, source := v.before(), v.source()
	decided, advice := 0, ""
	for _, s := range v.specs {
		t, ok := before[s.Key]
		if !ok {
			v.miss(s.Key, "it has no result")
			continue
		}
		if t.Error != nil && t.Error.Type == result.Cancelled {
			v.miss(s.Key, "it was cancelled")
			continue
		}
		if !trial.CanVerifyAgain(s, v.Job, t) {
			decided++
			v.carried = append(v.carried, source.Take(t))
			continue
		}
		again := &trial.Again{Job: v.stored.Plan.JobName, From: v.reverifies, Before: t}
		var reason string
		if v.req.Artifacts {
			reason = noArtifacts(s, v.Job.Artifacts, t)
		} else if again.Outcome, reason = chooseKept(t, provider.Name(), kept, true); reason == nothingKept {
			if noArtifacts(s, v.Job.Artifacts, t) == "" {
				reason, advice = reason+", but its artifacts are: --from artifacts uses them", adviceOfArtifacts
			} else {
				reason, advice = reason+" (environment.keep: outcome keeps what agents leave)", cmp.Or(advice, adviceToKeep)
			}
		}
		if reason != "" {
			v.miss(s.Key, reason)
			if v.req.CarryOver {
				v.carried = append(v.carried, source.Take(t))
			}
			continue
		}
		s.Again = again
		v.again = append(v.again, s)
	}
	v.explain(decided)
	if len(v.again) == 0 {
		return usage("%s has no trial that can be verified again%s", clean(v.req.Dir), advice)
	}
	return nil
}

// keptEnvironments returns the ids of the environments of a provider that were kept.
func keptEnvironments(ctx context.Context, provider environment.Provider) (map[string]bool, error) {
	if _, ok := environment.As[environment.Restorer](provider); !ok {
		return nil, usage("the provider %s cannot continue with environments that were kept", clean(provider.Name()))
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
	nothingKept       = "nothing of the environment was kept"
	adviceToKeep      = ": run jobs whose tests may change with environment.keep: outcome, or let tasks keep artifacts"
	adviceOfArtifacts = " from its environments: use the artifacts that there are, with --from artifacts"
)

// chooseKept chooses between a trial's kept outcome and its environment after the tests.
// preferOutcome decides if both exist. reason is why neither can be used, or "".
func chooseKept(t result.Trial, provider string, kept map[string]bool, preferOutcome bool) (outcome bool, reason string) {
	e := t.Environment
	switch {
	case t.Reused != nil:
		return false, "the result was taken over from another job, " + t.Reused.From + ": verify that one"
	case t.Reverified != nil:
		return false, "the result is one of rollout verify: verify " + t.Reverified.From + " again"
	case e == nil || e.Outcome == nil && (!e.Preserved || e.ID == ""):
		return false, nothingKept
	case e.Provider != provider:
		return false, "the environment is one of the provider " + e.Provider
	}
	hasOutcome := e.Outcome != nil && kept[e.Outcome.ID]
	hasEnvironment := e.Preserved && e.ID != "" && kept[e.ID]
	if !hasOutcome && !hasEnvironment {
		return false, "what was kept of the environment is not here any more, or on another machine"
	}
	return hasOutcome && (preferOutcome || !hasEnvironment), ""
}

// noArtifacts returns why the artifacts of a trial are not all that its task and the job collect,
// or "".
func noArtifacts(s trial.Spec, ofJob []string, t result.Trial) string {
	wanted := artifacts.Wanted(s.Task.Config.Artifacts, ofJob)
	switch {
	case t.Reused != nil:
		return "the result was taken over from another job, " + t.Reused.From + ": verify that one"
	case len(t.Artifacts) == 0:
		return "there are no artifacts (artifacts in task.toml or the job file)"
	case len(t.Artifacts) != len(wanted):
		return "not all artifacts that are wanted are there"
	}
	for i, a := range t.Artifacts {
		switch {
		case a.Source != wanted[i].Source:
			return "other artifacts are wanted now"
		case len(wanted[i].Exclude) > 0:
			return "the artifact " + a.Source + " leaves files out (exclude)"
		case a.Incomplete:
			return "the artifact " + a.Source + " could not be copied whole"
		}
	}
	return ""
}

// explain reports how many trials are verified again or taken over.
func (v *verifying) explain(decided int) {
	out := v.host.Output
	linef(out, "Verifying %s of %s again%s", plural.Count(len(v.again), "trial"), clean(v.req.Dir), v.basis())
	if decided > 0 {
		linef(out, "%s that ended before the tests %s taken over", plural.Count(decided, "trial"), plural.Are(decided))
	}
	v.explainMissed("verified", v.req.CarryOver)
}

// basis returns what the tests run on, as the continuation of "again".
func (v *verifying) basis() string {
	outcomes := 0
	for _, s := range v.again {
		if s.Again.Outcome {
			outcomes++
		}
	}
	switch n := len(v.again); {
	case n == 0:
		return ""
	case v.req.Artifacts:
		return ", with the artifacts of each"
	case outcomes == n:
		return ", on what agents left before the earlier tests"
	case outcomes == 0:
		return ", on what the earlier tests left"
	default:
		return fmt.Sprintf(": %d on what agents left before the earlier tests, %d on what those tests left", outcomes, n-outcomes)
	}
}

// withEvidence is a Runner that adds the output of the earlier trial's agent to the new results.
type withEvidence struct {
	job.Runner
	dir       string // of the earlier job
	artifacts bool   // trials begin with the earlier trials' artifacts
}

// Run implements job.Runner.
func (w withEvidence) Run(ctx context.Context, spec trial.Spec, dir string) trial.Outcome {
	var failed []string
	for _, part := range []string{result.SetupDir, result.CommandDir} {
		if err := w.link(spec.Key, part, dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = append(failed, fmt.Sprintf("%s/ of the earlier trial could not be copied: %v", part, err))
		}
	}
	if w.artifacts {
		again := *spec.Again
		again.Artifacts = unreadable{}
		if root, err := os.OpenRoot(w.dir); err == nil { // links cannot lead out of it
			defer root.Close()
			if below, err := fs.Sub(root.FS(), spec.Key.Dir()); err == nil {
				again.Artifacts = below
			}
		}
		spec.Again = &again
	}
	out := w.Runner.Run(ctx, spec, dir)
	out.Trial.Warnings = append(out.Trial.Warnings, failed...)
	return out
}

// unreadable is a directory that cannot be read.
type unreadable struct{}

// Open implements fs.FS.
func (unreadable) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}

// link links a directory of the earlier trial into dir.
func (w withEvidence) link(key result.Key, part, dir string) error {
	source, err := nofollow.OpenDirBelow(w.dir, append(strings.Split(key.Dir(), "/"), part)...)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := nofollow.OpenDir(dir)
	if err != nil {
		return err
	}
	defer target.Close()
	return new(linktree.Linker).Link(source, target, part)
}

// reverified returns a sentence for reports about trials whose tests were run again; "" if there
// are none.
func reverified(plan result.Plan, trials []result.Trial) string {
	n, outcomes, artifacts := 0, 0, false
	var cost result.USD
	for _, t := range trials {
		if t.Reverified != nil {
			n++
			artifacts = artifacts || t.Reverified.Artifacts
			if t.Reverified.Outcome {
				outcomes++
			}
			cost = cost.Plus(t.Reverified.AgentCosts.Total())
		}
	}
	if n == 0 {
		return ""
	}
	if plan.OnlyJudges {
		return fmt.Sprintf("only the judges of %s ran, on what %s kept; what the trials cost there is not counted", plural.Count(n, "trial"), clean(plan.Reverifies))
	}
	what := "in copies of the environments that %s kept, as the earlier tests had left them, and without the processes that agents had left running"
	switch {
	case outcomes == n:
		what = "in copies of the environments that %s kept, as the agents had left them, but without the processes that were running"
	case outcomes > 0:
		what = fmt.Sprintf("in copies of the environments that %%s kept, of which %d are as the agents had left them, and %d as the earlier tests had; processes that agents had left running are gone", outcomes, n-outcomes)
	case artifacts:
		what = "in new environments with the artifacts that %s kept, and with nothing else of what agents had done"
	}
	text := fmt.Sprintf("the tests of %s were run again "+what, plural.Count(n, "trial"), clean(plan.Reverifies))
	if cost.Amount() > 0 {
		text += fmt.Sprintf("; the %s that the agents cost there are not counted", report.Cost(cost))
	}
	return text
}
