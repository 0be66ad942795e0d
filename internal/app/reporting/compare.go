package reporting

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
)

// CompareRequest is the request of Compare. Each side is a job's directory, its result.json, a URL
// of one, or GitHubPrefix with a branch.
type CompareRequest struct {
	Base, Head string
	Stored     StoredAt
}

// Comparison is two jobs side by side.
type Comparison struct {
	Base, Head string // name, commit and origin of each side
	Note       string // what both sides share; "": nothing
	Diff       result.Diff
}

// Compare compares two jobs, without a verdict.
func Compare(ctx context.Context, h *host.Host, req CompareRequest) (Comparison, error) {
	f := FinderOf(h)
	base, baseName, err := f.Side(ctx, req.Base, req.Stored, f.evaluatedAt(req.Head))
	if err != nil {
		return Comparison{}, err
	}
	head, headName, err := f.Side(ctx, req.Head, req.Stored, f.evaluatedAt(req.Base))
	if err != nil {
		return Comparison{}, err
	}
	c := Comparison{Base: baseName, Head: headName, Diff: result.Compare(base, head)}
	if n, _ := Shared(base, head); n > 0 || f.sameSource(req.Base, req.Head) {
		c.Note = "Both sides have the same trials, which show no difference by construction"
		if n > 0 {
			c.Note = fmt.Sprintf("Both sides have %s in common, which %s no difference by construction", plural.Count(n, "trial"), map[bool]string{true: "shows", false: "show"}[n == 1])
		}
	}
	for _, side := range []result.Job{base, head} {
		if fewer := side.Rounds.Fewer(); fewer != "" {
			c.Note += map[bool]string{true: ". "}[c.Note != ""] + "The job " + host.Clean(side.JobName) + " " + fewer
		}
	}
	return c, nil
}

// sameSource reports whether two sides are read from the same place.
func (f Finder) sameSource(a, b string) bool {
	return a == b || !host.IsRemote(a) && !host.IsRemote(b) && f.SameJob(a, b)
}

// Shared counts the trials that two jobs have in common. oneJob reports whether that is because
// they are one job, such as a copy of its directory or one of its shards; otherwise trials were
// taken over.
func Shared(a, b result.Job) (trials int, oneJob bool) {
	named := a.JobName == b.JobName && a.PlanDigest == b.PlanDigest && a.PlanDigest != ""
	for was, o := range a.Results.Common(b.Results) {
		if !o.SameTrial(was) {
			continue
		}
		reused := o.Reused || was.Reused
		if named || reused {
			trials++
		}
		oneJob = oneJob || named && (!reused || a.StartedAt.Equal(b.StartedAt))
	}
	return trials, oneJob
}

// evaluatedAt returns the commit that the other side of a comparison evaluated, if that side is a
// job's directory or result.json.
func (f Finder) evaluatedAt(path string) Evaluated {
	job, _, err := result.ReadJob(f.Path(path))
	if err != nil || job.Commit == nil {
		return Evaluated{} // reading that side reports the error
	}
	return Evaluated{commit: *job.Commit}
}

// Side returns a job to compare and its description: name, commit and origin. other is the job that
// evaluated the other side's commit.
func (f Finder) Side(ctx context.Context, path string, at StoredAt, other Evaluated) (result.Job, string, error) {
	if branch, ok := strings.CutPrefix(path, GitHubPrefix); ok {
		found := f.onGitHub(ctx, branch, at, other)
		if ctx.Err() != nil {
			return result.Job{}, "", fmt.Errorf("%s: %w", path, ctx.Err())
		}
		if found.Job == nil {
			return result.Job{}, "", fmt.Errorf("%s: %s", path, host.Clean(found.Sentence))
		}
		return *found.Job, describe(*found.Job, found.Sentence), nil
	}
	if host.IsRemote(path) {
		job, err := f.download(ctx, path)
		switch {
		case errors.Is(err, errNoObject):
			return result.Job{}, "", host.Usagef("%s: %w", ShownSource(path), err)
		case err != nil:
			return result.Job{}, "", err
		}
		return *job, describe(*job, ShownSource(path)), nil
	}
	work := event.Begin(ctx, "Reading "+path, 0)
	job, unreadable, err := result.ReadJob(f.Path(path))
	work.End()
	if errors.Is(err, fs.ErrNotExist) {
		return job, "", host.Usagef("%s: there are no results of a job (give a job's directory, its %s or github:BRANCH)", host.Clean(path), result.ResultFile)
	}
	if err != nil {
		return job, "", host.Usagef("%w", err)
	}
	for _, u := range unreadable {
		host.Warnf(f.out, "%v", u)
	}
	return job, describe(job, path), nil
}

// CompareAgents compares the agents of a job in pairs, as the key compare of its config.json asks,
// and returns a sentence for each list that names an agent without trials, and one if the job ended
// early. A shard compares none.
// confidence is that of the gate; 0: its default.
func CompareAgents(job result.Job, plan result.Plan, stored []byte, confidence float64) (versus []gate.Versus, notes []string) {
	if plan.Shard != nil || len(stored) == 0 {
		return nil, nil
	}
	file, err := config.ParseStored(result.ConfigFile, stored)
	if err != nil {
		return nil, nil // the gate's policy reports it
	}
	tried := map[string]bool{}
	for _, t := range result.AttemptsOf(job) {
		tried[t.Key.Agent] = true
	}
	if fewer := job.Rounds.Fewer(); fewer != "" && len(file.Compare) > 0 {
		notes = append(notes, "The comparison of agents (compare) is of a job that "+fewer)
	}
	for _, agents := range file.Compare {
		versus = append(versus, gate.ContrastAgents(job, agents, cmp.Or(confidence, gate.DefaultConfidence))...)
		absent := slices.DeleteFunc(slices.Clone(agents), func(name string) bool { return tried[name] })
		if len(absent) == 0 || job.NothingAffected() {
			continue
		}
		what := "was left out"
		if len(agents)-len(absent) > 1 {
			what = "lacks " + strings.Join(absent, ", ")
		}
		notes = append(notes, fmt.Sprintf("The comparison of agents %s (compare) %s, because this job has no trials of %s", strings.Join(agents, ", "), what, strings.Join(absent, ", ")))
	}
	return versus, notes
}

func describe(job result.Job, source string) string {
	text := "job " + host.Clean(job.JobName)
	if job.Commit != nil {
		text += " at commit " + host.Clean(host.ShortCommit(*job.Commit))
	}
	if job.RolloutVersion != "" {
		text += " by Rollout " + host.Clean(job.RolloutVersion)
	}
	return text + " (" + host.Clean(source) + ")" + lacks(job)
}
