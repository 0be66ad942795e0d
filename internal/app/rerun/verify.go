package rerun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/nofollow"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/job/linktree"
	"github.com/org/rollout-action/internal/run/job/reuse"
	"github.com/org/rollout-action/internal/run/trial"
)

// VerifyRequest is the request of Verify.
type VerifyRequest struct {
	Dir       string            // of the job whose trials are verified again
	Trials    []string          // parts of the names of trials; empty: all
	JobFile   string            // as in ResumeRequest
	Job       stages.JobRequest // without File
	Name      string            // of the new job; "": that of the old one, with "-verified"
	Artifacts bool              // use the trials' artifacts, in new environments, instead of their kept environments
	CarryOver bool              // take over the old results of trials that cannot be verified again
	Report    reporting.ReportOptions
}

// Verify runs the current tests of a job's trials again, on what the trials kept: their outcomes,
// or else their environments. The results go into a new job next to the old one, which does not
// change. The Finished is as in Run.
func Verify(ctx context.Context, h *host.Host, req VerifyRequest) (*host.Finished, error) {
	var err error
	if req.Report, err = req.Report.CheckedEarly(ctx, reporting.FinderOf(h)); err != nil {
		return nil, err
	}
	v, err := planVerify(ctx, h, req)
	if err != nil {
		return nil, err
	}
	defer v.Close()
	h.Output.Warnings(v.Warnings)
	provider, err := v.Connect(ctx, "")
	if err != nil {
		return nil, err
	}
	defer provider.Close()
	if err := v.sort(ctx, provider); err != nil {
		return nil, err
	}
	o, err := v.Open(ctx, provider, nil)
	if err != nil {
		return nil, err
	}
	o.Todo = v.again
	o.Runner = func(r job.Runner) job.Runner { return withEvidence{r, h.Path(req.Dir), req.Artifacts} }
	o.Earlier, err = reuse.TakeOver(ctx, o.Tree, v.carried, job.Instructions(o.Own(), redact.New(o.Secrets)))
	if err != nil && ctx.Err() == nil {
		return nil, errors.Join(err, o.Tree.Close())
	}
	return o.RunAndReport(ctx, nil)
}

// verifying is a job that is verified again.
type verifying struct {
	*followUp
	req VerifyRequest
}

// planVerify plans the new job.
func planVerify(ctx context.Context, h *host.Host, req VerifyRequest) (*verifying, error) {
	again := stages.ResumeRequest{Dir: req.Dir, JobFile: req.JobFile, Job: req.Job, Report: req.Report}
	again.Job.Unused = true
	q, err := planFollowUp(ctx, h, again, req.Trials, "verified")
	if err == nil && q.Judges != nil { // whose models need their keys
		q.Close()
		again.Job.Unused = false
		q, err = planFollowUp(ctx, h, again, req.Trials, "verified")
	}
	if err != nil {
		return nil, err
	}
	v := &verifying{followUp: q, req: req}
	v.Job.Verifier.Disable, v.Job.Budget = false, config.Budget{}
	if err := v.place(req.Name, "-verified"); err != nil {
		v.Close()
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
		if kept, err = KeptEnvironments(ctx, provider); err != nil {
			return err
		}
	}
	before, source := v.before(), v.source()
	decided, advice := 0, ""
	for _, s := range v.Specs {
		t, ok := before[s.Key]
		if !ok {
			v.miss(s.Key, "it has no result")
			continue
		}
		if t.Error != nil && t.Error.Type == result.Cancelled {
			v.miss(s.Key, "it was cancelled")
			continue
		}
		if len(s.Task.Config.Steps) > 0 {
			advice = cmp.Or(advice, adviceOfSteps)
			v.missOrCarry(s.Key, "its task has steps, and the environment at the end of each is not kept", source.Take(t))
			continue
		}
		if !trial.CanVerifyAgain(s, v.Job, t) {
			decided++
			v.carried = append(v.carried, source.Take(t))
			continue
		}
		again := &trial.Again{Job: v.stored.Plan.JobName, From: v.Reverifies, Before: t}
		var reason string
		if v.req.Artifacts {
			reason = noArtifacts(s, v.Job, t)
		} else if again.Outcome, reason = ChooseKept(t, provider.Name(), kept, true); reason == NothingKept {
			if noArtifacts(s, v.Job, t) == "" {
				reason, advice = reason+", but its artifacts are: --from artifacts uses them", adviceOfArtifacts
			} else {
				reason, advice = reason+" (environment.keep: outcome keeps the agents' files)", cmp.Or(advice, adviceToKeep)
			}
		}
		if reason != "" {
			v.missOrCarry(s.Key, reason, source.Take(t))
			continue
		}
		s.Again = again
		v.again = append(v.again, s)
	}
	v.explain(decided)
	if len(v.again) == 0 {
		return host.Usagef("%s has no trial that can be verified again%s", host.Clean(v.req.Dir), advice)
	}
	return nil
}

// missOrCarry reports that a trial cannot be verified, and takes it over if that is wanted.
func (v *verifying) missOrCarry(k result.Key, reason string, taken reuse.Found) {
	v.miss(k, reason)
	if v.req.CarryOver {
		v.carried = append(v.carried, taken)
	}
}

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
	adviceOfSteps     = ": tasks with steps run as a whole, with their agent: use rollout run"
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
	switch {
	case t.Reused != nil:
		return "the result was taken over from another job, " + t.Reused.From + ": verify that one"
	case len(t.Artifacts) == 0:
		return "there are no artifacts (artifacts in task.toml or the job file)"
	case len(t.Artifacts) != len(wanted):
		return "some artifacts of the task are missing"
	}
	for i, a := range t.Artifacts {
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

// explain reports how many trials are verified again or taken over.
func (v *verifying) explain(decided int) {
	out := v.Host.Output
	host.Linef(out, "Verifying %s of %s again%s", plural.Count(len(v.again), "trial"), host.Clean(v.req.Dir), v.basis())
	if decided > 0 {
		host.Linef(out, "%s that ended before the tests %s taken over", plural.Count(decided, "trial"), plural.Are(decided))
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
		return ", on the agents' files before the earlier tests"
	case outcomes == 0:
		return ", on the files that the earlier tests left"
	default:
		return fmt.Sprintf(": %d on the agents' files before the earlier tests, %d on the files that those tests left", outcomes, n-outcomes)
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
