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

	"github.com/org/rollout-action/internal/report"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/reporters/json"
	"github.com/org/rollout-action/reporters/junit"
	"github.com/org/rollout-action/reporters/markdown"
)

// deliver writes the reports that were asked for to where they go. What cannot be delivered to GitHub is a note for people,
// for it says nothing about the agents; a file that cannot be written is an error. w may be nil.
func (a *app) deliver(ctx context.Context, w *workflow, in report.Input, flags reportFlags) (notes []string, err error) {
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
			if err := a.writeReport(file.path, file.reporter, in); err != nil {
				return notes, fmt.Errorf("write the report %s: %w", file.path, err)
			}
		}
	}
	return notes, nil
}

// writeReport writes one report to a file, making its folder.
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

// findBaseline is the job to compare with, and a sentence about it or about why there is none.
func (a *app) findBaseline(ctx context.Context, flags reportFlags) (base *result.Job, sentence string, err error) {
	source := flags.baseline
	if source == "none" || source == "" {
		return nil, "none was asked for, so nothing was compared", nil
	}
	if branch, ok := strings.CutPrefix(source, githubPrefix); ok {
		base, sentence = a.githubBaseline(ctx, branch, flags.baselineArtifact)
		return base, sentence, nil
	}
	return a.baselineFile(source)
}

// baselineFile is a baseline from disk, which has to be there: somebody named it.
func (a *app) baselineFile(path string) (*result.Job, string, error) {
	job, unreadable, err := result.ReadJob(a.path(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", usage("--baseline %s: there is no such folder or file (none compares with nothing)", path)
	}
	if err != nil {
		return nil, "", usage("--baseline: %w", err)
	}
	for _, u := range unreadable {
		a.warnf("baseline: %v", u)
	}
	sentence := fmt.Sprintf("%s (job %s", path, job.JobName)
	if job.Commit != nil {
		sentence += " at commit " + shortCommit(*job.Commit)
	}
	return &job, sentence + ")", nil
}

// shortCommit is a commit as people read it.
func shortCommit(commit string) string {
	if len(commit) > 12 {
		return commit[:7]
	}
	return commit
}
