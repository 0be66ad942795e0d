package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/gate"
	"github.com/org/rollout-action/internal/github"
	"github.com/org/rollout-action/internal/report"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/reporters/annotations"
	"github.com/org/rollout-action/reporters/comment"
	"github.com/org/rollout-action/reporters/markdown"
)

// apiPatience bounds all that is asked of GitHub's API: a report that comes late is better than a job that hangs.
const apiPatience = 5 * time.Minute

// githubPrefix begins a baseline that is looked for on GitHub.
const githubPrefix = "github:"

// workflow is the run of a workflow that a command is part of.
type workflow struct {
	github.Actions
	token  string
	getenv github.Getenv
}

// workflow returns the workflow run that the command is part of; nil if it is not in one or is not to write to it. What GitHub
// did not provide becomes a note.
func (a *app) workflow(flags reportFlags) (w *workflow, notes []string) {
	if flags.github == "off" {
		return nil, nil
	}
	facts, inside, err := github.FromEnv(a.Getenv)
	if err != nil {
		notes = append(notes, "the event of this workflow cannot be read: "+err.Error())
	}
	if !inside && flags.github != "on" {
		return nil, notes
	}
	token, _ := a.Getenv("GITHUB_TOKEN")
	return &workflow{Actions: facts, token: token, getenv: a.Getenv}, notes
}

// links returns where people find more about the run.
func (w *workflow) links() report.Links {
	l := report.Links{Run: w.RunURL(), Commit: w.CommitURL(), Sha: w.HeadSHA, Files: w.FilesURL()}
	if l.Run != "" {
		l.Artifact = l.Run + "#artifacts"
	}
	return l
}

// leave writes the comment, the summary, annotations and outputs of the workflow. What fails becomes a note, which the summary
// then has, because it says nothing about the agents.
func (a *app) leave(ctx context.Context, w *workflow, in report.Input, flags reportFlags) (notes []string) {
	if in.Plan.Shard == nil {
		if note := a.comment(ctx, w, in, flags); note != "" {
			notes = append(notes, note)
			in.Notes = append(in.Notes, note)
		}
		if err := a.summarize(w, in); err != nil {
			notes = append(notes, "the job summary is missing: "+err.Error())
		}
		_ = annotations.Reporter{}.Write(a.Stderr, in) // nobody may be reading it any more
	}
	if err := setOutputs(w, in, flags); err != nil {
		notes = append(notes, "the step's outputs are incomplete: "+err.Error())
	}
	return notes
}

// summarize adds the report to the step's summary, in as much detail as fits.
func (a *app) summarize(w *workflow, in report.Input) error {
	var text strings.Builder
	r := markdown.Reporter{Limit: min(markdown.DefaultLimit, github.SummarySpace(w.getenv))}
	if err := r.Write(&text, in); err != nil {
		return err
	}
	return github.AppendSummary(w.getenv, []byte(text.String()))
}

// comment brings the pull request's comment up to date, if one is wanted. A note says why it could not.
func (a *app) comment(ctx context.Context, w *workflow, in report.Input, flags reportFlags) (note string) {
	mode, err := github.ParseMode(flags.comment)
	if err != nil || mode == github.Off || w.Number == 0 && !w.NeedsPull() {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	if err := w.upsert(ctx, mode, in); err != nil {
		return "the pull request has no comment about this: " + inTime(ctx, err).Error()
	}
	return ""
}

// inTime puts the end of ctx into words of people.
func inTime(ctx context.Context, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("GitHub did not answer within %s", apiPatience)
	case ctx.Err() != nil:
		return errors.New("the command was cancelled")
	}
	return err
}

func (w *workflow) upsert(ctx context.Context, mode github.Mode, in report.Input) error {
	switch {
	case w.token == "":
		return errors.New("there is no token (the environment variable GITHUB_TOKEN, or the Action's input github-token)")
	case w.ReadOnly():
		return github.ErrReadOnly
	}
	client, err := github.New(w.token, w.APIURL)
	if err != nil {
		return err
	}
	number := w.Number
	if w.NeedsPull() {
		pull, err := client.FindPull(ctx, w.Actions)
		if err != nil {
			return err
		}
		number = pull.Number
	}
	exists := false
	if mode != github.Always {
		if exists, err = client.HasComment(ctx, w.Repository, number, w.commentName(in.Job.JobName)); err != nil {
			return err
		}
	}
	if !github.ShouldComment(mode, changed(in.Diff), !in.Passed(), exists) {
		return nil
	}
	c := github.Comment{
		Repo: w.Repository, Number: number, Marker: w.commentName(in.Job.JobName),
		ValidAt: in.Job.StartedAt, RunID: w.RunID, Attempt: w.RunAttempt,
	}
	if c.ValidAt.After(in.Now) { // as somebody's artifact claims, so that no later run could replace its comment
		c.ValidAt = in.Now
	}
	var body strings.Builder
	if err := (comment.Reporter{Limit: github.MaxComment - github.CommentOverhead(c)}).Write(&body, in); err != nil {
		return err
	}
	c.Body = body.String()
	_, err = client.Upsert(ctx, c)
	return err
}

// newName is a name that a job gets that has none of its own (package config): another one in each run.
var newName = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}__\d{2}-\d{2}-\d{2}$`)

// commentName returns what tells this job's comment from those of others: its name. A job without one is known by its place in the
// workflow, or each run would leave a comment more.
func (w *workflow) commentName(job string) string {
	if !newName.MatchString(job) {
		return job
	}
	return cmp.Or(strings.Trim(w.WorkflowFile+"/"+w.Job, "/"), job)
}

// changed reports whether a task is not what it was in the baseline.
func changed(d *result.Diff) bool {
	return d != nil && len(d.Tasks) > d.Counts[result.Same]
}

// setOutputs sets the outputs of the step, all of them numbers, words and paths of our own.
func setOutputs(w *workflow, in report.Input, flags reportFlags) error {
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	cost := func(u result.USD) string {
		if usd, ok := u.Reported(); ok {
			return number(usd)
		}
		return ""
	}
	count := func(kind result.Change) string {
		if in.Diff == nil {
			return ""
		}
		return strconv.Itoa(in.Diff.Counts[kind])
	}
	verdict := string(in.Verdict.Outcome)
	switch {
	case len(in.Incomplete) > 0:
		verdict = "incomplete"
	case verdict != "" && !in.Passed():
		verdict = string(gate.Fail) // as the exit code says; an inconclusive one can fail, too
	}
	var problems []error
	for _, o := range [][2]string{
		{"pass-rate", number(in.Job.PassRate)}, {"mean-reward", number(in.Job.MeanReward)}, {"verdict", verdict},
		{"broken", count(result.Broken)}, {"fixed", count(result.Fixed)}, {"total-cost", cost(in.Job.TotalCost)},
		{"result-path", in.Dir + "/" + result.ResultFile}, {"junit-path", flags.junit},
	} {
		problems = append(problems, github.SetOutput(w.getenv, o[0], o[1]))
	}
	return errors.Join(problems...)
}

// githubBaseline returns the result of the last run on a branch ("": the pull request's base, or the default branch), and a sentence
// about it or about why there is none. That is never an error: the first run of all has no baseline. of is the commit
// that was evaluated.
func (a *app) githubBaseline(ctx context.Context, branch string, at storedAt, of evaluated) (*result.Job, string) {
	facts, _, err := github.FromEnv(a.Getenv)
	if err != nil || facts.Repository == "" {
		return nil, "results are looked for on GitHub only in a workflow, whose environment says which repository it is"
	}
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	job, found, err := a.fetchBaseline(ctx, facts, branch, at, of)
	switch {
	case errors.Is(err, github.ErrNoBaseline):
		return nil, err.Error()
	case err != nil:
		return nil, "it could not be looked for: " + inTime(ctx, err).Error()
	}
	sentence := found.String()
	if job.Commit != nil && *job.Commit != found.Commit { // of another ref, or of another repository
		sentence += ", whose results are of commit " + clean(shortCommit(*job.Commit))
	}
	return job, sentence
}

// evaluated is the commit that a job evaluated, as its directory tells; "" if it does not.
type evaluated struct {
	commit  string
	parents []string
}

// evaluatedIn returns the commit that a job with this plan evaluated.
func evaluatedIn(plan result.Plan) evaluated {
	if plan.Commit == nil {
		return evaluated{}
	}
	return evaluated{*plan.Commit, plan.Parents}
}

func (a *app) fetchBaseline(ctx context.Context, facts github.Actions, branch string, at storedAt, of evaluated) (*result.Job, github.Found, error) {
	var none github.Found
	token, _ := a.Getenv("GITHUB_TOKEN")
	client, err := github.New(token, facts.APIURL)
	if err != nil {
		return nil, none, err
	}
	file := facts.WorkflowFile
	if facts.Origin != nil { // the workflow that ran the job, not the one that reports on it
		file = facts.Origin.WorkflowFile
	}
	file = cmp.Or(at.workflow, file)
	if branch == "" {
		branch = facts.BaselineBranch()
	}
	if branch == "" && facts.NeedsPull() {
		pull, err := client.FindPull(ctx, facts)
		if err != nil && !errors.Is(err, github.ErrNoPull) {
			return nil, none, err
		}
		branch = cmp.Or(pull.BaseRef, facts.DefaultBranch)
	}
	dir, err := os.MkdirTemp("", "rollout-baseline-")
	if err != nil {
		return nil, none, fmt.Errorf("make a directory for the baseline: %w", err)
	}
	defer os.RemoveAll(dir)
	query := facts.Query(branch, of.commit, of.parents)
	query.WorkflowFile, query.Artifact = file, at.artifact
	found, err := client.FindBaseline(ctx, query, dir)
	if err != nil {
		return nil, none, err
	}
	job, _, err := result.ReadJob(found.Path)
	if err != nil {
		return nil, none, err
	}
	return &job, found, nil
}
