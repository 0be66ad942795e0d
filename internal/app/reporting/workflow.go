package reporting

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/forge/comments"
	"github.com/org/rollout-action/internal/forge/github"
	"github.com/org/rollout-action/internal/forge/github/step"
	"github.com/org/rollout-action/reporters"
)

// apiPatience bounds the time for all requests to GitHub's API: a late report is better than a job
// that hangs.
const apiPatience = 5 * time.Minute

// Workflow is the workflow run that a use case writes to.
type Workflow struct {
	github.Environment
	Getenv   github.Getenv // names the files for summaries and outputs
	Commands io.Writer     // receives annotations
	Formats  reporters.Table
}

// OpenWorkflow returns the workflow run to write to; nil if there is none or mode ("auto", "on" or
// "off") forbids it. Missing data from GitHub becomes a note.
func OpenWorkflow(h *host.Host, mode string) (w *Workflow, notes []string) {
	if mode == "off" {
		return nil, nil
	}
	env := h.GitHub()
	if env.Err != nil {
		notes = append(notes, "the event of this workflow cannot be read: "+env.Err.Error())
	}
	if !env.Inside && mode != "on" {
		return nil, notes
	}
	return &Workflow{env, h.Getenv, h.Commands, h.Formats()}, notes
}

// links returns the links of a report to the run, which evaluates a commit; nil if it is unknown.
func (w *Workflow) links(commit *string) report.Links {
	known := ""
	if commit != nil {
		known = *commit
	}
	facts := w.Evaluating(known)
	l := report.Links{Run: w.RunURL(), Commit: facts.CommitURL(), Sha: facts.HeadSHA, Files: facts.FilesURL()}
	if l.Run != "" {
		l.Artifact = l.Run + "#artifacts"
	}
	return l
}

// write writes the comment, the summary, annotations and outputs of the workflow. Failures become
// notes, which say nothing about the agents; that of the comment also appears in the summary.
func (w *Workflow) write(ctx context.Context, h *host.Host, in report.Input, opts ReportOptions) (notes []string) {
	if page := fileOf(opts.Files, w.isPage); page != "" {
		in.Links.Page, in.Links.InArtifacts = pageFile(page)
	}
	if in.Plan.Shard == nil {
		if note := comment(ctx, h, w, in, opts); note != "" {
			notes = append(notes, note)
			in.Notes = append(in.Notes, note)
		}
		if err := w.summarize(in); err != nil {
			notes = append(notes, "the job summary is missing: "+err.Error())
		}
		_ = w.Formats.WriteJob(w.Commands, reporters.Annotations, in, reporters.Options{}) // the reader may be gone
	}
	if err := w.setOutputs(in, CasesIn(opts.Files)); err != nil {
		notes = append(notes, "the step's outputs are incomplete: "+err.Error())
	}
	return notes
}

// pagesDir is the directory to which the reusable workflow has a job's page written, and which it
// keeps as an artifact.
const pagesDir = "rollout-page"

// pageFile returns the path of a job's page for reports, and whether it will be among the run's
// artifacts. Files outside of pagesDir are handled by the calling workflow.
func pageFile(path string) (file string, kept bool) {
	path = filepath.ToSlash(filepath.Clean(path))
	if below, ok := strings.CutPrefix(path, pagesDir+"/"); ok {
		return below, true
	}
	return path, false
}

// summarize adds the report to the step's summary, in as much detail as fits.
func (w *Workflow) summarize(in report.Input) error {
	var text strings.Builder
	if err := w.Formats.WriteJob(&text, reporters.Summary, in, w.SummaryOptions()); err != nil {
		return err
	}
	return step.AppendSummary(w.Getenv, []byte(text.String()))
}

// SummaryOptions returns the options of a report that must fit into the step's summary.
func (w *Workflow) SummaryOptions() reporters.Options {
	return reporters.Options{Limit: max(1, step.SummarySpace(w.Getenv))}
}

// isPage reports whether a format is a page for readers.
func (w *Workflow) isPage(format string) bool {
	f, _ := w.Formats.Find(format)
	return f.Page
}

// comment updates the pull request's comment, if one is wanted. On failure it returns a sentence
// for the user.
func (w *Workflow) comment(ctx context.Context, in report.Input, when string) (note string) {
	mode, err := comments.ParseMode(cmp.Or(when, "off"))
	if err != nil || mode == comments.Off || w.Number == 0 && !w.NeedsPull() {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	if err := w.upsert(ctx, mode, in); err != nil {
		return "the pull request has no comment about this: " + inTime(ctx, err).Error()
	}
	return ""
}

// inTime rewords the error if ctx has ended.
func inTime(ctx context.Context, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("there was no answer within %s", apiPatience)
	case ctx.Err() != nil:
		return errors.New("the command was cancelled")
	}
	return err
}

// pull returns a client of GitHub's API and the number of the pull request.
func (w *Workflow) pull(ctx context.Context) (*github.Client, int, error) {
	client, err := github.New(w.Token, w.APIURL)
	if err != nil || !w.NeedsPull() {
		return client, w.Number, err
	}
	pull, err := client.FindPull(ctx, w.Actions)
	if err != nil {
		return nil, 0, err
	}
	return client, pull.Number, nil
}

func (w *Workflow) upsert(ctx context.Context, mode comments.Mode, in report.Input) error {
	switch {
	case w.Token == "":
		return errors.New("there is no token (the environment variable GITHUB_TOKEN, or the Action's input github-token)")
	case w.ReadOnly():
		return github.ErrReadOnly
	}
	client, number, err := w.pull(ctx)
	if err != nil {
		return err
	}
	name := w.commentName(JobName{in.Plan.NamedAs, in.Job.JobName})
	wanted, err := wantsComment(mode, in, func() (bool, error) {
		return client.HasComment(ctx, w.Repository, number, name)
	})
	if err != nil || !wanted {
		return err
	}
	c := github.Comment{
		Repo: w.Repository, Number: number, Marker: name,
		ValidAt: Earliest(in.Job.StartedAt, in.Now), RunID: w.SourceRun(), Attempt: w.SourceAttempt(),
	}
	var body strings.Builder
	limit := github.MaxComment - github.CommentOverhead(c) - comments.NoticeRoom
	if err := w.Formats.WriteJob(&body, reporters.Comment, in, reporters.Options{Limit: limit}); err != nil {
		return err
	}
	c.Body = body.String()
	_, err = client.Upsert(ctx, c)
	return err
}

// wantsComment reports whether to write a comment. exists reports whether an earlier run has left
// one; it is called only if that matters.
func wantsComment(mode comments.Mode, in report.Input, exists func() (bool, error)) (bool, error) {
	there := false
	if mode != comments.Always {
		var err error
		if there, err = exists(); err != nil {
			return false, err
		}
	}
	return comments.ShouldComment(mode, changed(in.Diff) || in.Verdict.Uncompared, !in.Passed() || in.Spared(), there), nil
}

// newName matches the names generated for jobs without a name (package config), which differ in
// each run.
var newName = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}__\d{2}-\d{2}-\d{2}$`)

// commentName returns the key that distinguishes this job's comment from those of others: its name,
// with the placeholders of the job file. A job without a name is identified by its place in the
// workflow. Otherwise each run would leave another comment.
func (w *Workflow) commentName(name JobName) string {
	job := cmp.Or(name.NamedAs, name.Name)
	if !newName.MatchString(job) {
		return job
	}
	return cmp.Or(strings.Trim(w.WorkflowFile+"/"+w.Job, "/"), job)
}

// changed reports whether a task differs from the one in the baseline.
func changed(d *result.Diff) bool {
	return d != nil && len(d.Tasks) > d.Counts[result.Same]
}

// setOutputs sets the outputs of the step: only our own numbers, words and paths.
func (w *Workflow) setOutputs(in report.Input, junitPath string) error {
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	cost := func(u result.USD) string {
		if usd, ok := u.Reported(); ok {
			return number(usd)
		}
		return ""
	}
	exact := ""
	if _, ok := in.Job.TotalCost.Reported(); ok {
		exact = strconv.FormatBool(!in.Job.TotalCost.AtLeast())
	}
	var counts map[result.Change]int
	if in.Diff != nil {
		counts = in.Diff.CountsEvaluated()
	}
	count := func(kind result.Change) string {
		if in.Diff == nil {
			return ""
		}
		return strconv.Itoa(counts[kind])
	}
	passRate, meanReward := in.Job.PassRate, in.Job.MeanReward
	if rate, mean := in.Job.Evaluated(); rate != nil {
		passRate, meanReward = *rate, *mean
	}
	verdict := string(in.Verdict.Outcome)
	switch {
	case len(in.Incomplete) > 0:
		verdict = "incomplete"
	case verdict != "" && !in.Verdict.Satisfied(in.Policy):
		verdict = string(gate.Fail) // as the exit code says, unless the gate only advises; an inconclusive verdict can also fail
	}
	var problems []error
	for _, o := range [][2]string{
		{"pass-rate", number(passRate)}, {"mean-reward", number(meanReward)}, {"verdict", verdict},
		{"broken", count(result.Broken)}, {"fixed", count(result.Fixed)}, {"total-cost", cost(in.Job.TotalCost)}, {"total-cost-exact", exact},
		{"result-path", in.Dir + "/" + result.ResultFile}, {"junit-path", junitPath},
	} {
		problems = append(problems, step.SetOutput(w.Getenv, o[0], o[1]))
	}
	return errors.Join(problems...)
}
