package rerun

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/run/job"
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
	o.Runner = func(r job.Runner) job.Runner { return withEvidence{r, h.Path(req.Dir), v.artifacts} }
	o.Earlier, err = reuse.TakeOver(ctx, o.Tree, v.carried, job.Instructions(o.Own(), redact.New(o.Secrets)))
	if err != nil && ctx.Err() == nil {
		return nil, errors.Join(err, o.Tree.Close())
	}
	return o.RunAndReport(ctx, nil)
}

// verifying is a job that is verified again.
type verifying struct {
	*followUp
	req       VerifyRequest
	artifacts map[result.Key]bool // the trials that begin with artifacts
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
	v := &verifying{followUp: q, req: req, artifacts: map[result.Key]bool{}}
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
	k, err := v.keptBy(ctx, provider)
	if err != nil {
		return err
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
		again, not := v.decide(s, t, k)
		switch {
		case not.reason != "":
			advice = not.over(advice)
			v.missOrCarry(s.Key, not.reason, source.Take(t))
		case again == nil:
			decided++
			v.carried = append(v.carried, source.Take(t))
		default:
			s.Again = again
			v.again = append(v.again, s)
		}
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

// explain reports how many trials are verified again or taken over.
func (v *verifying) explain(decided int) {
	out := v.Host.Output
	host.Linef(out, "Verifying %s of %s again%s", plural.Count(len(v.again), "trial"), host.Clean(v.req.Dir), v.basis())
	if decided > 0 {
		host.Linef(out, "%s that ended before the tests %s taken over", plural.Count(decided, "trial"), plural.Are(decided))
	}
	v.explainMissed("verified", v.req.CarryOver)
}

// on returns what the tests of a trial run on, as result.StepRun.VerifiedOn; "": its steps differ.
func (v *verifying) on(s trial.Spec) string {
	if s.Again.Steps == nil {
		switch {
		case v.artifacts[s.Key]:
			return result.OnArtifacts
		case s.Again.Outcome:
			return result.OnOutcome
		}
		return result.OnEnvironment
	}
	same := map[string]bool{}
	on := ""
	for _, step := range s.Again.Steps {
		if !step.Ended {
			on = step.On()
			same[on] = true
		}
	}
	if len(same) > 1 {
		return ""
	}
	return on
}

// basis returns what the tests run on, as the continuation of "again".
func (v *verifying) basis() string {
	count := map[string]int{}
	for _, s := range v.again {
		count[v.on(s)]++
	}
	var parts []string
	for _, on := range []struct{ kind, all, some string }{
		{result.OnOutcome, "on the agents' files before the earlier tests", "on the agents' files before the earlier tests"},
		{result.OnEnvironment, "on the files that the earlier tests left", "on the files that those tests left"},
		{result.OnArtifacts, "with the artifacts of each", "with their artifacts"},
		{"", "on what each of their steps has kept", "on what each of their steps has kept"},
	} {
		switch n := count[on.kind]; n {
		case 0:
		case len(v.again):
			return ", " + on.all
		default:
			parts = append(parts, fmt.Sprintf("%d %s", n, on.some))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}
