package reporting

import (
	"cmp"
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

	"github.com/org/rollout-action/internal/app/host"
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

// Wants reports whether the request selects a job of this name.
func (r HistoryRequest) Wants(name string) bool {
	return len(r.Jobs) == 0 || slices.ContainsFunc(r.Jobs, func(glob string) bool { ok, _ := path.Match(glob, name); return ok })
}

// ReadHistory reads one source of the history.
func ReadHistory(ctx context.Context, h *host.Host, path string, req HistoryRequest) (points []history.Point, err error) {
	if branch, ok := strings.CutPrefix(path, GitHubPrefix); ok {
		return historyOnGitHub(ctx, h, branch, req)
	}
	f, err := os.OpenFile(h.Path(path), os.O_RDONLY|syscall.O_NONBLOCK, 0) // a named pipe would block
	if errors.Is(err, fs.ErrNotExist) {
		return nil, host.Usagef("%s: there is no such file (rollout history add JOB --to %s writes it)", host.Clean(path), host.QuotedPath(path))
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
		return nil, host.Usagef("%s is not a file: give one that rollout history add JOB --to FILE.jsonl wrote", host.Clean(path))
	}
	points, err = history.Read(f, host.Clean(path))
	if err != nil {
		return nil, host.Usagef("%w", err)
	}
	return points, nil
}

// historyOnGitHub returns the jobs whose results the newest runs on a branch left as artifacts. If
// there are none, it only warns with the reason, because the first run of a workflow has no
// history.
func historyOnGitHub(ctx context.Context, h *host.Host, branch string, req HistoryRequest) ([]history.Point, error) {
	env := h.GitHub()
	if env.Err != nil || env.Repository == "" {
		return nil, host.Usagef("--history %s: results are looked for on GitHub only in a workflow, whose environment says which repository it is", GitHubPrefix+host.Clean(branch))
	}
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	points, err := resultsOnGitHub(ctx, env, branch, req)
	if errors.Is(err, github.ErrNoBaseline) {
		host.Warnf(h.Output, "--history %s: %v", GitHubPrefix+host.Clean(branch), err)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("--history %s: %w", GitHubPrefix+host.Clean(branch), inTime(ctx, err))
	}
	return points, nil
}

func resultsOnGitHub(ctx context.Context, env github.Environment, branch string, req HistoryRequest) ([]history.Point, error) {
	client, err := github.New(env.Token, env.APIURL)
	if err != nil {
		return nil, err
	}
	query, _, err := queryFor(ctx, client, env, branch, req.Stored, Evaluated{})
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "rollout-history-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for results: %w", err)
	}
	defer os.RemoveAll(dir)
	found, err := client.FindResults(ctx, query, cmp.Or(req.Limit, github.MaxResults), dir)
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
		if v, _ := ReadVerdict(host.Paths{}, filepath.Dir(f.Path)); v != nil { // artifacts of earlier versions have none
			verdict, _ = OutcomeOf(v)
		}
		points = append(points, history.PointOf(job, f.Branch, verdict))
	}
	return points, nil
}

// shownRuns is how many earlier jobs are requested from GitHub for a report: as many as its line of
// blocks shows.
const shownRuns = 20

// addHistory adds the earlier jobs that reports show. They do not affect the verdict, so a failure
// to read them is only a note.
func (f *finishing) addHistory(ctx context.Context, h *host.Host) {
	if f.opts.History == "" || Unjudged(f.in.Plan) || f.in.Plan.ProvesTasks {
		return
	}
	points, err := ReadHistory(ctx, h, f.opts.History, HistoryRequest{Stored: f.opts.Stored, Limit: shownRuns})
	if err != nil {
		f.in.Notes = append(f.in.Notes, "the history is not shown: "+err.Error())
		return
	}
	f.in.History = history.Without(points, history.PointOf(f.in.Job, "", ""))
}
