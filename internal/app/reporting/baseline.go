package reporting

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/forge/github"
	"github.com/org/rollout-action/internal/lib/plural"
)

// Finder finds the results of other jobs on disk and on GitHub.
type Finder struct {
	host.Paths
	host.Variables
	out    host.Output
	github func() github.Environment
}

// FinderOf returns the finder of baselines for a host.
func FinderOf(h *host.Host) Finder { return Finder{h.Paths, h.Variables, h.Output, h.GitHub} }

// Baseline returns the job to compare with, and a sentence about it or about why there is none. dir
// is the directory of the job, which evaluated the commit of.
func (f Finder) Baseline(ctx context.Context, dir string, of Evaluated, opts ReportOptions) (base *result.Job, sentence string, err error) {
	source := opts.Baseline
	if !opts.Compares() {
		return nil, "none was asked for, so nothing was compared", nil
	}
	if strings.HasPrefix(source, GitHubPrefix) {
		found := f.Find(ctx, dir, of, opts)
		return found.Job, found.Sentence, found.Err
	}
	if host.IsRemote(source) {
		if found := opts.remote; found != nil && found.source == source {
			base, err = found.job, found.err
		} else {
			base, err = f.download(ctx, source)
		}
		switch {
		case errors.Is(err, errNoObject):
			return nil, fmt.Sprintf("%s: %v", ShownSource(source), err), nil
		case err != nil:
			return nil, "", fmt.Errorf("--baseline: %w", err)
		}
		sentence = ShownSource(source) + EvaluatedBy(*base)
		if of.pool > 1 {
			sentence += "; gate.baseline.pool has no effect, because a URL is one run"
		}
		return base, sentence, nil
	}
	if f.SameJob(source, dir) {
		return nil, "", host.Usagef("--baseline %s: is the job itself, which is never worse than itself", host.Clean(source))
	}
	job, unreadable, err := f.Read(source)
	if err != nil {
		return nil, "", err
	}
	for _, u := range unreadable {
		host.Warnf(f.out, "baseline: %v", u)
	}
	sentence = source + EvaluatedBy(*job)
	return job, sentence + f.poolOnDisk(source, dir, job, of.pool), nil
}

// Find returns what Baseline does, with the address of the baseline's run.
func (f Finder) Find(ctx context.Context, dir string, of Evaluated, opts ReportOptions) (b FoundBaseline) {
	branch, ok := strings.CutPrefix(opts.Baseline, GitHubPrefix)
	if !ok || !opts.Compares() {
		b.Job, b.Sentence, b.Err = f.Baseline(ctx, dir, of, opts)
		return b
	}
	b = f.onGitHub(ctx, branch, opts.Stored, of)
	if b.Job != nil {
		b.Sentence += lacks(*b.Job)
	} else if _, run := cutRun(branch); run != 0 {
		b.Err = fmt.Errorf("--baseline %s: the result that this job was compared with is no longer available: %s (begin again, as \"Re-run all jobs\" does)", host.Clean(opts.Baseline), host.Clean(b.Sentence))
	}
	return b
}

// cutRun splits a branch and the run that github:BRANCH:RUN names; 0: none. No branch has a colon
// in its name.
func cutRun(source string) (branch string, run int64) {
	branch, id, ok := strings.Cut(source, ":")
	if !ok {
		return source, 0
	}
	if run, err := strconv.ParseInt(id, 10, 64); err == nil && run > 0 {
		return branch, run
	}
	return source, 0
}

// EvaluatedBy returns the end of a sentence about a baseline: the job, its commit, and its missing
// results.
func EvaluatedBy(job result.Job) string {
	commit := ", commit not known"
	if job.Commit != nil {
		commit = " at commit " + host.ShortCommit(*job.Commit)
	}
	return fmt.Sprintf(" (job %s%s)%s", job.JobName, commit, lacks(job))
}

// Read reads a baseline from disk. It must exist, because the user named it.
func (f Finder) Read(path string) (job *result.Job, unreadable []error, err error) {
	read, unreadable, err := result.ReadJob(f.Path(path))
	if errors.Is(err, fs.ErrNotExist) {
		what := "there is no such directory or file"
		if _, err := os.Stat(f.Path(path)); err == nil {
			what = "there are no results of a job in this directory"
		} else if named := filepath.Join(host.JobsDir, path); !strings.ContainsRune(path, filepath.Separator) && host.IsDir(f.Path(named)) {
			what += ", but the job " + host.Clean(named) + ": give its path"
		}
		return nil, nil, host.Usagef("--baseline %s: %s (none compares with nothing)", ShownSource(path), what)
	}
	if err != nil {
		return nil, nil, host.Usagef("--baseline: %w", err)
	}
	return &read, unreadable, nil
}

// lacks returns the end of a sentence about the missing results of a job, or "".
func lacks(job result.Job) string {
	text := ""
	if job.Shard != nil {
		text += ", only shard " + job.Shard.String()
	}
	if n := job.SkippedTrials; n > 0 {
		text += fmt.Sprintf(", incomplete: %d of %s %s no result", n, plural.Count(job.TotalTrials, "trial"), plural.Have(n))
	}
	return text
}

// onGitHub returns the result of the last run on a branch ("": the pull request's base, or the
// default branch), and a sentence about it or about why there is none. A missing result is never an
// error: the very first run has no baseline. of is the evaluated commit.
func (f Finder) onGitHub(ctx context.Context, branch string, at StoredAt, of Evaluated) (b FoundBaseline) {
	env := f.github()
	if env.Err != nil || env.Repository == "" {
		return FoundBaseline{Sentence: "results are looked for on GitHub only in a workflow, whose environment says which repository it is"}
	}
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	job, found, together, err := fetchBaseline(ctx, env, branch, at, of)
	switch {
	case errors.Is(err, github.ErrNoBaseline):
		return FoundBaseline{Sentence: err.Error()}
	case err != nil:
		return FoundBaseline{Sentence: "Rollout could not look for it: " + inTime(ctx, err).Error()}
	}
	sentence := found.String()
	if job.Commit != nil && *job.Commit != found.Commit { // of another ref, or of another repository
		sentence += ", whose results are of commit " + host.Clean(host.ShortCommit(*job.Commit))
	}
	sentence += together
	return FoundBaseline{Job: job, Sentence: sentence, URL: found.RunURL, Source: fmt.Sprintf("%s%s:%d", GitHubPrefix, found.Branch, found.RunID)}
}

// Evaluated is the commit that a job evaluated, from its directory; "" if unknown.
type Evaluated struct {
	commit  string
	parents []string
	pool    int // with how many runs to compare it together; less than 2: one
}

// EvaluatedIn returns the commit that a job with this plan evaluated.
func EvaluatedIn(plan result.Plan) Evaluated {
	if plan.Commit == nil {
		return Evaluated{}
	}
	return Evaluated{commit: *plan.Commit, parents: plan.Parents}
}

// queryFor returns the query for the results of a branch ("": the pull request's base, or the
// default branch) with which to compare the commit of. doubt says why the branch may be a wrong
// one; "": it is not.
func queryFor(ctx context.Context, client *github.Client, env github.Environment, branch string, at StoredAt, of Evaluated) (query github.Query, doubt string, err error) {
	var base github.Base
	branch, run := cutRun(branch)
	if branch == "" {
		if base, err = client.BaselineOf(ctx, env.Actions, of.commit, of.parents); err != nil {
			return query, "", err
		}
		branch = base.Branch
	}
	if branch == "" && env.NeedsPull() {
		pull, err := client.FindPull(ctx, env.Actions)
		if err != nil && !errors.Is(err, github.ErrNoPull) {
			return query, "", err
		}
		branch = cmp.Or(pull.BaseRef, env.DefaultBranch)
	}
	query = env.Query(branch, of.commit, of.parents)
	query.Run = run
	if asked := base.Pull; asked != nil { // not the event's commit, which is that of the default branch
		query.Event, query.Head = asked.HeadSHA, asked.HeadSHA
	}
	file := env.WorkflowFile
	if env.Origin != nil { // the workflow that ran the job, not the one that reports on it
		file = env.Origin.WorkflowFile
	}
	query.WorkflowFile, query.Artifact = cmp.Or(at.Workflow, file), cmp.Or(at.Artifact, DefaultBaselineArtifact)
	return query, base.Doubt, nil
}

// fetchBaseline returns the baseline, with the earlier runs that of asks for. together ends the
// baseline's sentence: it names these runs and any doubt about the branch.
func fetchBaseline(ctx context.Context, env github.Environment, branch string, at StoredAt, of Evaluated) (_ *result.Job, found github.Found, together string, err error) {
	client, err := github.New(env.Token, env.APIURL)
	if err != nil {
		return nil, found, "", err
	}
	query, doubt, err := queryFor(ctx, client, env, branch, at, of)
	if err != nil {
		return nil, found, "", err
	}
	if doubt != "" {
		doubt = "; it is " + host.Clean(doubt)
	}
	dir, err := os.MkdirTemp("", "rollout-baseline-")
	if err != nil {
		return nil, found, "", fmt.Errorf("make a directory for the baseline: %w", err)
	}
	defer os.RemoveAll(dir)
	if found, err = client.FindBaseline(ctx, query, dir); err != nil {
		return nil, found, "", err
	}
	job, _, err := result.ReadJob(found.Path)
	if err != nil {
		return nil, found, "", err
	}
	if query.Run != 0 && of.pool > 1 {
		return &job, found, doubt + "; gate.baseline.pool has no effect, because one run was named", nil
	}
	return &job, found, doubt + poolOnGitHub(ctx, client, query, found, &job, of.pool, dir), nil
}
