package library

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/history"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/nofollow"
	"github.com/org/rollout-action/internal/run/job"
)

// JobsRequest is the request of ListJobs.
type JobsRequest struct {
	Dir     string // contains the directories of jobs
	Default bool   // the user did not name Dir: if it does not exist, there are no jobs yet
	Limit   int    // how many jobs to return; 0: all
	// Until leaves out jobs that claim to have begun later; zero: none. Plans are untrusted.
	Until time.Time
	// NoBaselines leaves out jobs that ran as the baseline of another one.
	NoBaselines bool
	// kept holds the jobs that were read before. Jobs that are not in it are not read after until
	// and have no state.
	kept  *listings
	until time.Time
}

// Jobs lists the jobs in a directory.
type Jobs struct {
	List  []ListedJob // the newest first
	Total int         // how many there are, even if List has fewer
	NoDir bool        // the default directory does not exist
}

// JobState classifies the progress of a job.
type JobState string

// States of a job.
const (
	JobDone       JobState = "done"       // every trial ran
	JobRunning    JobState = "running"    // a process on this machine runs it
	JobCancelled  JobState = "cancelled"  // it ended, and trials are missing
	JobStopped    JobState = "stopped"    // so it did, because of its budget or --fail-fast
	JobKilled     JobState = "killed"     // its process ended without writing the job's result
	JobUnreadable JobState = "unreadable" // its files are damaged
)

// ListedJob summarizes a job in a list. Numbers are those of the result.Summary, but PassRate and
// MeanReward are those of the evaluated agents (result.Job.Evaluated); null if unknown.
type ListedJob struct {
	Dir       string        `json:"dir"` // below the current directory, or absolute
	Name      string        `json:"job_name"`
	State     JobState      `json:"state"`
	Resumable bool          `json:"resumable"`
	StartedAt time.Time     `json:"started_at"`
	Commit    *string       `json:"commit"`
	Shard     *result.Shard `json:"shard"`

	TotalTrials     int        `json:"total_trials"`
	CompletedTrials int        `json:"completed_trials"`
	FailedTrials    int        `json:"failed_trials"`
	SkippedTrials   int        `json:"skipped_trials"`
	PassRate        *float64   `json:"pass_rate"`
	MeanReward      *float64   `json:"mean_reward"`
	TotalCost       result.USD `json:"total_cost"`
	CostAtLeast     bool       `json:"total_cost_at_least,omitempty"` // TotalCost is a lower bound
	DurationSec     float64    `json:"total_duration_sec"`

	// Verdict is the stored verdict of the job (JudgedAt is set), which is fail if results were
	// missing, or else the outcome of the job's own gate without a baseline; "" if unknown. A job
	// that began with a baseline and has no stored verdict has none, unless it fails even without a
	// baseline.
	Verdict  gate.Outcome `json:"verdict"`
	Reason   string       `json:"verdict_reason"`
	JudgedAt *time.Time   `json:"judged_at"` // null: no verdict is stored
	Baseline string       `json:"baseline"`  // of the stored verdict; "": it has none
	// Note says why the job's verdict.json does not count; "" if it does, or if there is none.
	Note  string `json:"verdict_note,omitempty"`
	Error string `json:"error,omitempty"` // why the job is unreadable
	// Resume is the command that continues the job; "" unless Resumable.
	Resume string `json:"-"`

	// partial: the job proves tasks or is a shard; proves: it proves tasks.
	partial, proves bool
	paired          *result.Beside // Plan.Beside
	// digest and split are from the plan; "" without one. evaluated is the number of trials that
	// PassRate counts.
	digest, split string
	evaluated     int
	// point is the job's point in the history, if requested (withPoint); nil if the job is not part
	// of a history.
	point     *history.Point
	withPoint bool
	// part has what a point needs of a shard that is done, if points were requested.
	part *result.Job
}

// NoJobsYet returns the message for a missing directory of jobs that the user did not name.
func NoJobsYet(dir string) string {
	return fmt.Sprintf("No jobs yet: there is no directory %s here. The first run makes it. If jobs_dir in your job file is another directory, name that one.", host.Clean(dir))
}

// ListJobs returns the jobs in a directory, newest first. Of jobs beyond the limit it reads only
// the start time.
func ListJobs(ctx context.Context, h *host.Host, req JobsRequest) (Jobs, error) {
	if req.Limit < 0 {
		return Jobs{}, host.Usagef("-n %d: give a number of jobs, or 0 for all", req.Limit)
	}
	out, err := identifyJobs(ctx, h, req)
	if err != nil {
		return Jobs{}, err
	}
	if req.Limit > 0 {
		out.List = out.List[:min(req.Limit, len(out.List))]
	}
	work := event.Begin(ctx, "Reading jobs", len(out.List))
	defer work.End()
	var readers errgroup.Group
	readers.SetLimit(runtime.GOMAXPROCS(0))
	for i := range out.List {
		readers.Go(func() error {
			if ctx.Err() == nil {
				req.kept.read(&out.List[i], h.Paths, req.until)
				work.Step()
			}
			return ctx.Err()
		})
	}
	if err := readers.Wait(); err != nil {
		return Jobs{}, err
	}
	return out, nil
}

// identifyJobs returns all jobs in a directory, newest first, with what the beginnings of their
// files contain.
func identifyJobs(ctx context.Context, h *host.Host, req JobsRequest) (Jobs, error) {
	dir := h.Path(req.Dir)
	if _, err := os.Stat(filepath.Join(dir, result.PlanFile)); err == nil {
		return Jobs{}, host.Usagef("%s is a job itself: see it with rollout show %s, or give the directory with the jobs", host.Clean(req.Dir), host.QuotedPath(req.Dir))
	}
	entries, err := os.ReadDir(dir)
	if _, missing := os.Lstat(dir); req.Default && errors.Is(missing, fs.ErrNotExist) {
		return Jobs{NoDir: true}, nil
	}
	if err != nil && !host.IsDir(dir) {
		return Jobs{}, host.Usagef("%s: there is no such directory (give the one with the jobs: jobs_dir in job files)", host.Clean(req.Dir))
	}
	if err != nil {
		return Jobs{}, err
	}
	var out Jobs
	for _, e := range entries {
		if ctx.Err() != nil {
			return Jobs{}, ctx.Err()
		}
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if listed, ok := Identify(dir, e); ok && !(req.NoBaselines && listed.paired != nil && listed.paired.Baseline) && (req.Until.IsZero() || !listed.StartedAt.After(req.Until)) {
			listed.Dir = filepath.Join(req.Dir, e.Name())
			out.List = append(out.List, listed)
		}
	}
	slices.SortFunc(out.List, NewestFirst)
	out.Total = len(out.List)
	return out, nil
}

// NewestFirst compares jobs by the time at which they began, for slices.SortFunc.
func NewestFirst(a, b ListedJob) int {
	return cmp.Or(b.StartedAt.Compare(a.StartedAt), cmp.Compare(a.Dir, b.Dir))
}

// Identify returns what the beginning of a job's files contains; false if the directory is not a
// job's.
func Identify(parent string, e fs.DirEntry) (ListedJob, bool) {
	dir := filepath.Join(parent, e.Name())
	listed := ListedJob{Name: e.Name()}
	plan, err := result.ReadPlanHead(dir)
	if errors.Is(err, fs.ErrNotExist) {
		var head result.Job // of a result without the other files
		if head, err = result.ReadJobHead(dir); errors.Is(err, fs.ErrNotExist) {
			empty, err := job.NotBegun(dir)
			if _, config := os.Lstat(filepath.Join(dir, result.ConfigFile)); err != nil || !empty || config != nil {
				return listed, false
			}
			// The job was killed, or is about to begin.
			listed.StartedAt, listed.State = modified(e), JobKilled
			if job.Running(dir) {
				listed.State = JobRunning
			}
			return listed, true
		}
		plan = result.Plan{JobName: head.JobName, StartedAt: head.StartedAt, Commit: head.Commit, Shard: head.Shard, Beside: head.Beside}
	}
	if err != nil {
		listed.StartedAt, listed.State, listed.Error = modified(e), JobUnreadable, err.Error()
		return listed, true
	}
	listed.paired, listed.digest, listed.split = plan.Beside, plan.Digest, plan.Split
	listed.Name, listed.StartedAt, listed.Commit, listed.Shard = cmp.Or(plan.JobName, listed.Name), plan.StartedAt.UTC(), plan.Commit, plan.Shard
	return listed, true
}

// modified returns when a directory was changed.
func modified(e fs.DirEntry) time.Time {
	info, err := e.Info()
	if err != nil {
		return time.Time{}
	}
	return result.Stamp(info.ModTime())
}

// read reads the rest of a job: its numbers, its state and its verdict.
func (l *ListedJob) read(paths host.Paths) error {
	if l.State != "" {
		return nil // there are no files to read
	}
	dir := paths.Path(l.Dir)
	summary, err := summaryOf(dir)
	ended := err == nil
	if errors.Is(err, fs.ErrNotExist) {
		tree, treeErr := result.ReadTree(dir)
		summary, err = result.Summarize(tree.Plan, tree.All()), treeErr
	}
	if err != nil {
		return err
	}
	s := summary.Summary
	l.TotalTrials, l.CompletedTrials, l.FailedTrials, l.SkippedTrials = s.TotalTrials, s.CompletedTrials, s.FailedTrials, s.SkippedTrials
	l.TotalCost, l.CostAtLeast, l.DurationSec = s.TotalCost, s.TotalCost.AtLeast(), summary.TotalDurationSec
	l.PassRate, l.MeanReward = summary.Evaluated()
	l.evaluated = summary.EvaluatedTrials()
	switch {
	case job.Running(dir):
		l.State = JobRunning
		return nil
	case !ended:
		l.State = JobKilled
	case summary.Cancelled && len(summary.Stopped) > 0:
		l.State = JobStopped
	case summary.Cancelled:
		l.State = JobCancelled
	default:
		l.State = JobDone
	}
	if !l.keeps(paths) || l.State != JobDone {
		err = l.conclude(paths, dir, summary)
	}
	switch {
	case err != nil || !l.withPoint || !ended:
	case summary.Shard == nil && l.Shard == nil && !l.partial:
		l.point = new(history.PointOf(summary, "", l.Verdict))
	case l.Shard != nil && l.State == JobDone && !l.proves:
		l.part = &result.Job{JobName: summary.JobName, PlanDigest: summary.PlanDigest, Commit: summary.Commit, StartedAt: summary.StartedAt, Results: summary.Results}
	}
	return err
}

// keeps fills in the stored verdict of the job, and reports whether there is one.
func (l *ListedJob) keeps(paths host.Paths) bool {
	v, note := reporting.ReadVerdict(paths, l.Dir)
	l.Note = note
	if v == nil {
		return false
	}
	l.Verdict, l.Reason = reporting.OutcomeOf(v)
	l.JudgedAt, l.Baseline = &v.JudgedAt, v.Baseline
	return true
}

// conclude determines how a job that does not run can be continued, or the outcome of its gate.
func (l *ListedJob) conclude(paths host.Paths, dir string, summary result.Job) error {
	plan, err := result.ReadPlan(dir) // as a whole: the needed fields are at its end
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	l.partial, l.proves = plan.ProvesTasks || reporting.Unjudged(plan), plan.ProvesTasks
	data, err := result.ReadConfig(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // an artifact may lack it: such a job cannot be resumed or judged
	case err != nil:
		return err
	case plan.ProvesTasks:
		return nil // it is neither resumed nor judged by a gate
	case l.State != JobDone && plan.Reverifies != "":
		return nil // it is not resumed
	case l.State != JobDone:
		l.Resumable, l.Resume = true, reporting.Resumption(paths, l.Dir, plan, reporting.ReportOptions{})
		return nil
	case reporting.Unjudged(plan):
		return nil // the gate is for the whole job
	}
	return l.judge(dir, summary, data, plan.Compared)
}

// judge checks the gate of a complete job.
func (l *ListedJob) judge(dir string, summary result.Job, data []byte, compared bool) error {
	policy, err := config.Policy(filepath.Join(dir, result.ConfigFile), data, nil)
	if err != nil {
		return fmt.Errorf("read the job's gate: %w", err)
	}
	if compared { // its baseline is not available
		policy.OnNoBaseline = gate.Pass
	}
	verdict := policy.Check(summary, nil, summary.EndedAt)
	if compared && verdict.Satisfied(policy) {
		l.Reason = "the job was compared with a baseline, and keeps no verdict: rollout report --baseline judges it"
		return nil
	}
	l.Verdict, l.Reason = verdict.Outcome, verdict.Reason
	return nil
}

// summaryOf reads a job's result.json; fs.ErrNotExist if there is none. It does not follow links.
func summaryOf(dir string) (result.Job, error) {
	path := filepath.Join(dir, result.ResultFile)
	f, err := nofollow.Open(path)
	if err != nil {
		return result.Job{}, err
	}
	_ = f.Close()
	summary, _, err := result.ReadJob(path)
	return summary, err
}
