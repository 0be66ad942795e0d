package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/forge/comments"
	"github.com/org/rollout-action/reporters/html"
	"github.com/org/rollout-action/reporters/json"
	"github.com/org/rollout-action/reporters/junit"
	"github.com/org/rollout-action/reporters/markdown"
)

// deliver writes the requested reports. A failure to write to GitHub is a note for the user, since
// it says nothing about the agents; a file that cannot be written is an error. w may be nil.
func deliver(ctx context.Context, h *Host, w *workflow, in report.Input, opts ReportOptions) (notes []string, err error) {
	if w == nil && opts.comments() && opts.GitHub != "off" {
		if note := h.comment(ctx, nil, in, opts); note != "" {
			notes = append(notes, note)
			in.Notes = append(in.Notes, note)
		}
	}
	if w != nil {
		notes = w.write(ctx, h, in, opts)
		in.Notes = append(in.Notes, notes...)
	}
	for _, file := range []struct {
		path     string
		reporter report.Reporter
	}{
		{opts.JUnit, junit.Reporter{CaseFiles: opts.CaseFiles || w != nil}},
		{opts.Markdown, markdown.Reporter{}},
		{opts.HTML, html.Reporter{}},
		{opts.JSON, json.Reporter{}},
	} {
		if file.path != "" {
			if failed := writeReport(h.Path(file.path), func(out io.Writer) error { return file.reporter.Write(out, in) }); failed != nil {
				err = errors.Join(err, fmt.Errorf("write the report %s: %w", file.path, failed))
			}
		}
	}
	return notes, err
}

// comment updates the comment on the pull request or the merge request, if one is wanted. On failure
// it returns a sentence for the user, and the comment no longer says that this run goes on. w is nil
// outside of GitHub.
func (h *Host) comment(ctx context.Context, w *workflow, in report.Input, opts ReportOptions) (note string) {
	if w == nil {
		note = commentOnGitLab(ctx, h.Getenv, in, opts.Comment)
	} else {
		note = w.comment(ctx, in, opts.Comment)
	}
	if note != "" && in.Plan.Shard == nil && ctx.Err() == nil { // a cancelled run says that itself
		h.unannounce(ctx, opts, nameOf(in.Plan), comments.NoVerdict)
	}
	return note
}

// writeReport writes one report to a file, creating its directory.
func writeReport(path string, write func(io.Writer) error) error {
	var text bytes.Buffer
	if err := write(&text); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return result.WriteFile(path, text.Bytes())
}
