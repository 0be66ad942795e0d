package stages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task/commits"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/fields"
	"github.com/org/rollout-action/internal/lib/git"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/job/affects"
	"github.com/org/rollout-action/internal/run/trial"
)

// Affected are the trials of a job that the changes since a commit can affect.
type Affected struct {
	affects.Selection
	Base    string   // the commit from which changes count
	Changed []string // the files that changed
}

// leaveOut leaves out the trials that nothing can affect that changed since a commit, branch or
// tag.
func (p *Planned) leaveOut(ctx context.Context, since string) error {
	if since == "" {
		return nil
	}
	h, given := p.Host, "--changed "+host.Clean(since)
	if h.Guard != nil && h.Guard.Commit() != "" {
		// Nothing in a fork's .git is trusted, and it could hide what it changed.
		host.Linef(h.Output, "note: %s: for changes from a fork with secrets, all trials run", given)
		return nil
	}
	if err := p.checkAffects(); err != nil {
		return err
	}
	around := checkout(h, p.Path)
	if around.Top == "" {
		return host.Usagef("%s: %s is in no git repository", given, host.Clean(p.Path))
	}
	changes, err := git.New(git.Options{Environ: h.AllVariables()}).Changes(ctx, around.Top, since, !inCI(h))
	if errors.Is(err, git.ErrNoCommit) {
		return host.Usagef("%s: %w", given, err)
	}
	if err != nil {
		return fmt.Errorf("find what changed since %s: %w", host.Clean(since), err)
	}
	changes.Files = slices.DeleteFunc(changes.Files, p.writtenBelow(around))
	p.Affected = &Affected{Selection: affects.Select(p.Job.Affects, changes.Files, p.Specs), Base: changes.Base, Changed: changes.Files}
	p.whole, p.Specs, p.NotAffected = p.Specs, p.Affected.Affected, p.Affected.Record(changes.Base, len(changes.Files))
	if len(p.Affected.Left) > 0 {
		host.Linef(h.Output, "note: %s", p.Affected.Sentence())
	}
	return nil
}

// inCI reports whether this machine runs a commit for a CI system. What its steps leave in the
// working tree is no change.
func inCI(h *host.Host) bool {
	value, _ := h.Getenv("CI")
	return h.GitHub().Inside || value != "" && value != "false" && value != "0"
}

// writtenBelow returns a function that reports whether a file of the repository is a result of
// jobs.
func (p *Planned) writtenBelow(around commits.Checkout) func(string) bool {
	dir, err := filepath.Abs(p.Host.Path(p.Job.JobsDir))
	if err != nil {
		return func(string) bool { return false }
	}
	below, err := filepath.Rel(around.Top, host.Resolved(dir))
	if err != nil || !filepath.IsLocal(below) || below == "." {
		return func(string) bool { return false }
	}
	prefix := filepath.ToSlash(below) + "/"
	return func(file string) bool { return strings.HasPrefix(file, prefix) }
}

// checkAffects refuses rules that name tasks or metadata which the job does not have: a misspelt
// name would leave out trials that a change affects. If the job has only a part of a dataset, it
// only warns.
func (p *Planned) checkAffects() error {
	names, part := map[string]bool{}, len(p.Job.IncludeTasks)+len(p.Job.ExcludeTasks) > 0
	for _, t := range p.Tasks() {
		names[t.Name] = true
	}
	for _, d := range p.Job.Datasets {
		part = part || d.NTasks > 0 || len(d.Tasks)+len(d.ExcludeTasks)+len(d.Metadata) > 0
	}
	severity, hint := diag.Error, "correct or remove it: a change to these files would run none"
	if part {
		severity, hint = diag.Warning, "the job has only a part of its tasks; if the whole has none either, correct or remove it"
	}
	var problems diag.List
	report := func(path fields.Path, message string) {
		at := p.At(path)
		problems = append(problems, diag.Diagnostic{
			File: at.File, Line: at.Line, Column: at.Column, Severity: severity,
			Message: host.Clean(path.String() + ": " + message), Hint: hint,
		})
	}
	for i, rule := range p.Job.Affects {
		path := fields.Path{"affects"}.Index(i)
		if rule.Tasks != nil {
			for k, glob := range *rule.Tasks {
				one := config.Affects{Tasks: &[]string{glob}}
				if !anyKey(names, one.HasTask) {
					report(path.Child("tasks").Index(k), fmt.Sprintf("no task of this job is called %q", glob))
				}
			}
		}
		if anyKey(names, rule.HasTask) && !slices.ContainsFunc(p.Tasks(), affects.Of(rule)) {
			report(path.Child("metadata"), "no task that this entry could select has these values in [metadata] of its task.toml")
		}
	}
	if part {
		p.Warnings = append(p.Warnings, problems...)
		return nil
	}
	return problems.Err()
}

func anyKey(names map[string]bool, is func(string) bool) bool {
	for name := range names {
		if is(name) {
			return true
		}
	}
	return false
}

// LeaveOutLike leaves out the trials that an earlier plan of the job left out, whatever has changed
// since.
func (p *Planned) LeaveOutLike(plan result.Plan) {
	if p.whole == nil {
		p.whole = p.Specs
	}
	p.Specs, p.NotAffected = p.whole, plan.NotAffected
	if plan.NotAffected != nil {
		p.Specs = slices.DeleteFunc(slices.Clone(p.whole), func(s trial.Spec) bool { return plan.NotAffected.Has(s.Key) })
	}
}

// Why returns the reason for which a trial runs, for people.
func (a *Affected) Why(i int) string {
	r := a.Reasons[i]
	if r.Rule < 0 {
		return r.File + ", which no entry of affects names"
	}
	return fmt.Sprintf("%s (affects[%d])", r.File, r.Rule)
}

// Sentence sums up what changed.
func (a *Affected) Sentence() string {
	total := len(a.Affected) + len(a.Left)
	if len(a.Changed) == 0 {
		return fmt.Sprintf("nothing changed since %s, so none of %s can be affected", host.ShortCommit(a.Base), plural.Count(total, "trial"))
	}
	return fmt.Sprintf("%d of %s can be affected by the %s that changed since %s", len(a.Affected), plural.Count(total, "trial"), plural.Count(len(a.Changed), "file"), host.ShortCommit(a.Base))
}

// NothingAffected reports whether the job has no trials, because nothing that changed can affect
// one.
func (p *Planned) NothingAffected() bool { return p.NotAffected != nil && len(p.Specs) == 0 }

// ReportNothing writes the directory of a job without trials, and reports on it. It asks no
// provider.
func (p *Planned) ReportNothing(ctx context.Context, lock *job.Lock) (*host.Finished, error) {
	p.Warn()
	o, err := p.Open(ctx, nil, lock)
	if err != nil {
		return nil, err
	}
	_, err = job.Run(ctx, nil, job.Options{Tree: o.Tree, Emit: o.Tree.Sink, Now: p.Host.Now, Hard: p.Host.Hard})
	if err := cmp.Or(err, o.Tree.Close()); err != nil {
		return nil, err
	}
	finished, err := reporting.Finish(ctx, p.Host, p.Dir(), p.Report, reporting.Ending{Ran: true, Cancelled: true})
	if finished != nil && p.Host.Finished != nil {
		p.Host.Finished(finished)
	}
	return finished, err
}
