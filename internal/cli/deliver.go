package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/org/rollout-action/internal/plural"
	"github.com/org/rollout-action/internal/report"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/reporters/json"
	"github.com/org/rollout-action/reporters/junit"
	"github.com/org/rollout-action/reporters/markdown"
)

// deliver writes the reports that were asked for to where they go. What cannot be delivered to GitHub is a note for people,
// for it says nothing about the agents; a file that cannot be written is an error. w may be nil.
func (a *app) deliver(ctx context.Context, w *workflow, in report.Input, flags reportFlags) (notes []string, err error) {
	if w == nil && flags.comment != "off" && flags.github != "off" {
		notes = append(notes, "there is no comment, because this is not a run of a GitHub workflow")
	}
	if w != nil {
		notes = a.leave(ctx, w, in, flags)
		in.Notes = append(in.Notes, notes...)
	}
	for _, file := range []struct {
		path     string
		reporter report.Reporter
	}{
		{flags.junit, junit.Reporter{CaseFiles: flags.caseFiles || w != nil}},
		{flags.markdown, markdown.Reporter{}},
		{flags.asJSON, json.Reporter{}},
	} {
		if file.path != "" {
			if failed := a.writeReport(file.path, file.reporter, in); failed != nil {
				err = errors.Join(err, fmt.Errorf("write the report %s: %w", file.path, failed))
			}
		}
	}
	return notes, err
}

// writeReport writes one report to a file, making its directory.
func (a *app) writeReport(path string, r report.Reporter, in report.Input) error {
	var text bytes.Buffer
	if err := r.Write(&text, in); err != nil {
		return err
	}
	full := a.path(path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return err
	}
	return result.WriteFile(full, text.Bytes())
}

// findBaseline returns the job to compare with, and a sentence about it or about why there is none.
// dir is the directory of the job that is compared, and of is the commit that it evaluated.
func (a *app) findBaseline(ctx context.Context, dir string, of evaluated, flags reportFlags) (base *result.Job, sentence string, err error) {
	source := flags.baseline
	if !flags.compares() {
		return nil, "none was asked for, so nothing was compared", nil
	}
	if branch, ok := strings.CutPrefix(source, githubPrefix); ok {
		base, sentence = a.githubBaseline(ctx, branch, flags.stored, of)
		if base != nil {
			sentence += lacks(*base)
		}
		return base, sentence, nil
	}
	if a.same(source, dir) {
		return nil, "", usage("--baseline %s: is the job itself, which is never worse than itself", clean(source))
	}
	job, unreadable, err := a.readBaseline(source)
	if err != nil {
		return nil, "", err
	}
	for _, u := range unreadable {
		a.warnf("baseline: %v", u)
	}
	commit := ", commit not known"
	if job.Commit != nil {
		commit = " at commit " + shortCommit(*job.Commit)
	}
	return job, fmt.Sprintf("%s (job %s%s)%s", source, job.JobName, commit, lacks(*job)), nil
}

// readBaseline reads a baseline from disk. It must exist, because somebody named it.
func (a *app) readBaseline(path string) (job *result.Job, unreadable []error, err error) {
	read, unreadable, err := result.ReadJob(a.path(path))
	if errors.Is(err, fs.ErrNotExist) {
		what := "there is no such directory or file"
		if _, err := os.Stat(a.path(path)); err == nil {
			what = "there are no results of a job in this directory"
		}
		return nil, nil, usage("--baseline %s: %s (none compares with nothing)", clean(path), what)
	}
	if err != nil {
		return nil, nil, usage("--baseline: %w", err)
	}
	return &read, unreadable, nil
}

// same reports whether a path is a job's directory or the result.json in it.
func (a *app) same(path, dir string) bool {
	job, err := os.Stat(a.path(dir))
	if err != nil {
		return false
	}
	other := a.path(path)
	if filepath.Base(other) == result.ResultFile {
		other = filepath.Dir(other)
	}
	info, err := os.Stat(other)
	return err == nil && os.SameFile(info, job)
}

// lacks returns the end of a sentence about a job: what is missing of it; "" if nothing is.
func lacks(job result.Job) string {
	text := ""
	if job.Shard != nil {
		text += ", only shard " + job.Shard.String()
	}
	if n := job.SkippedTrials; n > 0 {
		text += fmt.Sprintf(", incomplete: %d of %s have no result", n, plural.Count(job.TotalTrials, "trial"))
	}
	return text
}

// shortCommit shortens a commit for people.
func shortCommit(commit string) string {
	if len(commit) > 12 {
		return commit[:7]
	}
	return commit
}
