package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/history"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/forge/github"
)

// HistoryRequest is the request of History.
type HistoryRequest struct {
	Dir   string   // contains the directories of jobs; "": none
	Files []string // written by AddToHistory, or GitHubPrefix with a branch: the results of its newest runs
	Jobs  []string // only jobs whose name matches one of these globs; empty: all
	Limit int      // how many jobs to return, the newest; 0: all
	// Stored is the location of the results on GitHub.
	Stored StoredAt
}

// wants reports whether the request selects a job of this name.
func (r HistoryRequest) wants(name string) bool {
	return len(r.Jobs) == 0 || slices.ContainsFunc(r.Jobs, func(glob string) bool { ok, _ := path.Match(glob, name); return ok })
}

// History returns the jobs of a directory and of files, oldest first and without duplicates.
// Shards, proofs of tasks, baselines that ran with another job and jobs without a result are left
// out, because they add nothing to the history of an agent.
func History(ctx context.Context, h *Host, req HistoryRequest) ([]history.Point, error) {
	if req.Limit < 0 {
		return nil, usage("-n %d: give a number of jobs, or 0 for all", req.Limit)
	}
	for _, glob := range req.Jobs {
		if _, err := path.Match(glob, ""); err != nil {
			return nil, usage("--job %s: %w (a name, in which * stands for any text)", clean(glob), err)
		}
	}
	var points []history.Point
	for _, file := range req.Files {
		read, err := h.readHistory(ctx, file, req)
		if err != nil {
			return nil, err
		}
		points = append(points, read...)
	}
	if req.Dir != "" {
		jobs, err := identifyJobs(ctx, h, JobsRequest{Dir: req.Dir, Default: true, NoBaselines: true})
		if err != nil {
			return nil, err
		}
		work := event.Begin(ctx, "Reading results", len(jobs.List))
		defer work.End()
		found := 0
		for _, job := range jobs.List { // the newest first
			if found == req.Limit && found > 0 {
				break
			}
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			work.Step()
			job.withPoint = true
			if job.Shard != nil || !req.wants(job.Name) || job.read(h.Paths) != nil || job.point == nil {
				continue
			}
			points = append(points, *job.point)
			found++
		}
	}
	points = slices.DeleteFunc(points, func(p history.Point) bool { return !req.wants(p.JobName) })
	points = history.Sorted(points)
	if req.Limit > 0 {
		points = points[max(0, len(points)-req.Limit):]
	}
	return points, nil
}

// readHistory reads one source of the history.
func (h *Host) readHistory(ctx context.Context, path string, req HistoryRequest) (points []history.Point, err error) {
	if branch, ok := strings.CutPrefix(path, GitHubPrefix); ok {
		return h.historyOnGitHub(ctx, branch, req)
	}
	f, err := os.OpenFile(h.Path(path), os.O_RDONLY|syscall.O_NONBLOCK, 0) // a named pipe would block
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usage("%s: there is no such file (rollout history add JOB --to %s writes it)", clean(path), quotedPath(path))
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, usage("%s: is not a file: give one that rollout history add JOB --to FILE.jsonl wrote", clean(path))
	}
	points, err = history.Read(f, clean(path))
	if err != nil {
		return nil, usage("%w", err)
	}
	return points, nil
}

// historyOnGitHub returns the jobs whose results the newest runs on a branch left as artifacts. If
// there are none, it only warns with the reason, because the first run of a workflow has no
// history.
func (h *Host) historyOnGitHub(ctx context.Context, branch string, req HistoryRequest) ([]history.Point, error) {
	env := h.GitHub()
	if env.Err != nil || env.Repository == "" {
		return nil, usage("--history %s: results are looked for on GitHub only in a workflow, whose environment says which repository it is", GitHubPrefix+clean(branch))
	}
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	points, err := resultsOnGitHub(ctx, env, branch, req)
	if errors.Is(err, github.ErrNoBaseline) {
		warnf(h.Output, "--history %s: %v", GitHubPrefix+clean(branch), err)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("--history %s: %w", GitHubPrefix+clean(branch), inTime(ctx, err))
	}
	return points, nil
}

func resultsOnGitHub(ctx context.Context, env github.Environment, branch string, req HistoryRequest) ([]history.Point, error) {
	client, err := github.New(env.Token, env.APIURL)
	if err != nil {
		return nil, err
	}
	query, err := queryFor(ctx, client, env, branch, req.Stored, evaluated{})
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "rollout-history-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for results: %w", err)
	}
	defer os.RemoveAll(dir)
	limit := req.Limit
	if limit == 0 {
		limit = github.MaxResults
	}
	found, err := client.FindResults(ctx, query, limit, dir)
	if err != nil {
		return nil, err
	}
	var points []history.Point
	for _, f := range found {
		job, _, err := result.ReadJob(f.Path)
		if err != nil || job.Shard != nil { // an artifact may contain anything
			continue
		}
		var verdict gate.Outcome
		if v, _ := readVerdict(Paths{}, filepath.Dir(f.Path)); v != nil { // artifacts of earlier versions have none
			verdict, _ = outcomeOf(v)
		}
		points = append(points, history.PointOf(job, f.Branch, verdict))
	}
	return points, nil
}

// HistoryAddRequest is the request of AddToHistory.
type HistoryAddRequest struct {
	Dir    string // of the job
	To     string // the file
	Branch string // that was evaluated; "": unknown
}

// AddToHistory adds a job to a file, and reports whether it was new.
func AddToHistory(ctx context.Context, h *Host, req HistoryAddRequest) (added bool, err error) {
	if err := h.checkJobDir(req.Dir); err != nil {
		return false, err
	}
	listed := ListedJob{Dir: req.Dir, withPoint: true}
	if err := listed.read(h.Paths); err != nil {
		return false, err
	}
	if slices.Contains([]JobState{JobRunning, JobKilled}, listed.State) {
		return false, usage("%s has no result yet (it is %s): add it when it is done", clean(req.Dir), listed.State)
	}
	if listed.point == nil {
		return false, usage("%s: it is a shard or a proof of tasks, which says nothing about how an agent does: give a whole job", clean(req.Dir))
	}
	listed.point.Branch = req.Branch
	added, err = history.Add(ctx, h.Path(req.To), *listed.point)
	if err != nil {
		return false, fmt.Errorf("add %s: %w", clean(req.Dir), err)
	}
	return added, nil
}

// shownRuns is how many earlier jobs are requested from GitHub for a report: as many as its line of
// blocks shows.
const shownRuns = 20

// addHistory adds the earlier jobs that reports show. They do not affect the verdict, so a failure
// to read them is only a note.
func (f *finishing) addHistory(ctx context.Context, h *Host) {
	if f.opts.History == "" || unjudged(f.in.Plan) || f.in.Plan.ProvesTasks {
		return
	}
	points, err := h.readHistory(ctx, f.opts.History, HistoryRequest{Stored: f.opts.Stored, Limit: shownRuns})
	if err != nil {
		f.in.Notes = append(f.in.Notes, "the history is not shown: "+err.Error())
		return
	}
	f.in.History = history.Without(points, history.PointOf(f.in.Job, "", ""))
}
