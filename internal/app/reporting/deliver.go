package reporting

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/forge/comments"
	"github.com/org/rollout-action/reporters"
)

// fileOf returns the path of the first file of a format; "" if there is none.
func fileOf(files []ReportFile, is func(format string) bool) string {
	i := slices.IndexFunc(files, func(f ReportFile) bool { return is(f.Format) })
	if i < 0 {
		return ""
	}
	return files[i].Path
}

// CasesIn returns the path of the JUnit file, for the output junit-path of a step; "" if there is
// none.
func CasesIn(files []ReportFile) string {
	return fileOf(files, func(format string) bool { return format == reporters.Cases })
}

// WriteReports writes files below the directory of paths, each with its format. write may be called
// for several files at once; of files with the same path, the last one stays.
func WriteReports(paths host.Paths, files []ReportFile, write func(w io.Writer, format string) error) error {
	errs := make([]error, len(files))
	place := func(file ReportFile) string { return filepath.Clean(paths.Path(file.Path)) }
	var work sync.WaitGroup
	for i, file := range files {
		if slices.ContainsFunc(files[i+1:], func(later ReportFile) bool { return place(later) == place(file) }) {
			continue
		}
		work.Go(func() {
			if err := writeReport(place(file), func(w io.Writer) error { return write(w, file.Format) }); err != nil {
				errs[i] = fmt.Errorf("write the report %s: %w", file.Path, err)
			}
		})
	}
	work.Wait()
	return errors.Join(errs...)
}

// deliver writes the requested reports. A failure to write to GitHub is a note for the user, since
// it says nothing about the agents; a file that cannot be written is an error. w may be nil.
func deliver(ctx context.Context, h *host.Host, w *Workflow, in report.Input, opts ReportOptions) (notes []string, err error) {
	if w != nil || opts.comments() || len(opts.Files) > 0 {
		in = in.WithCases()
	}
	if w == nil && opts.comments() && opts.GitHub != "off" {
		if note := comment(ctx, h, nil, in, opts); note != "" {
			notes = append(notes, note)
			in.Notes = append(in.Notes, note)
		}
	}
	if w != nil {
		notes = w.write(ctx, h, in, opts)
		in.Notes = append(in.Notes, notes...)
	}
	written := opts.Options
	written.CaseFiles = written.CaseFiles || w != nil // annotations need them
	return notes, WriteReports(h.Paths, opts.Files, func(out io.Writer, format string) error {
		return h.Formats().WriteJob(out, format, in, written)
	})
}

// comment updates the comment on the pull request or the merge request, if one is wanted. On
// failure it returns a sentence for the user, and the comment no longer announces this run. w is
// nil outside of GitHub.
func comment(ctx context.Context, h *host.Host, w *Workflow, in report.Input, opts ReportOptions) (note string) {
	if w == nil {
		note = commentOnGitLab(ctx, h, in, opts.Comment)
	} else {
		note = w.comment(ctx, in, opts.Comment)
	}
	if note != "" && in.Plan.Shard == nil && ctx.Err() == nil { // a cancelled run says that itself
		unannounce(ctx, h, opts, NameOf(in.Plan), comments.NoVerdict)
	}
	return note
}

// writeReport writes one report to a file, creating its directory.
func writeReport(path string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return result.WriteFrom(path, func(file io.Writer) error {
		out := bufio.NewWriterSize(file, 64<<10)
		return errors.Join(write(out), out.Flush())
	})
}
