package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
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
	Diff       result.Diff
}

// Compare compares two jobs, without a verdict.
func Compare(ctx context.Context, h *Host, req CompareRequest) (Comparison, error) {
	f := h.finder()
	base, baseName, err := f.side(ctx, req.Base, req.Stored, f.evaluatedAt(req.Head))
	if err != nil {
		return Comparison{}, err
	}
	head, headName, err := f.side(ctx, req.Head, req.Stored, f.evaluatedAt(req.Base))
	if err != nil {
		return Comparison{}, err
	}
	return Comparison{Base: baseName, Head: headName, Diff: result.Compare(base, head)}, nil
}

// evaluatedAt returns the commit that the other side of a comparison evaluated, if that side is a
// job's directory or result.json.
func (f finder) evaluatedAt(path string) evaluated {
	job, _, err := result.ReadJob(f.Path(path))
	if err != nil || job.Commit == nil {
		return evaluated{} // reading that side reports the error
	}
	return evaluated{commit: *job.Commit}
}

// side returns a job to compare and its description: name, commit and origin. other is the job that
// evaluated the other side's commit.
func (f finder) side(ctx context.Context, path string, at StoredAt, other evaluated) (result.Job, string, error) {
	if branch, ok := strings.CutPrefix(path, GitHubPrefix); ok {
		job, sentence := f.onGitHub(ctx, branch, at, other)
		if ctx.Err() != nil {
			return result.Job{}, "", fmt.Errorf("%s: %w", path, ctx.Err())
		}
		if job == nil {
			return result.Job{}, "", fmt.Errorf("%s: %s", path, clean(sentence))
		}
		return *job, describe(*job, sentence), nil
	}
	if isRemote(path) {
		job, err := f.download(ctx, path)
		switch {
		case errors.Is(err, errNoObject):
			return result.Job{}, "", usage("%s: %w", shown(path), err)
		case err != nil:
			return result.Job{}, "", err
		}
		return *job, describe(*job, shown(path)), nil
	}
	work := event.Begin(ctx, "Reading "+path, 0)
	job, unreadable, err := result.ReadJob(f.Path(path))
	work.End()
	if errors.Is(err, fs.ErrNotExist) {
		return job, "", usage("%s: there are no results of a job (give a job's directory, its %s or github:BRANCH)", clean(path), result.ResultFile)
	}
	if err != nil {
		return job, "", usage("%w", err)
	}
	for _, u := range unreadable {
		warnf(f.out, "%v", u)
	}
	return job, describe(job, path), nil
}

func describe(job result.Job, source string) string {
	text := "job " + clean(job.JobName)
	if job.Commit != nil {
		text += " at commit " + clean(ShortCommit(*job.Commit))
	}
	if job.RolloutVersion != "" {
		text += " by Rollout " + clean(job.RolloutVersion)
	}
	return text + " (" + clean(source) + ")" + lacks(job)
}
