package app

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/forge/github"
	"github.com/org/rollout-action/internal/run/prove"
	"github.com/org/rollout-action/reporters/provereport"
)

// deliverProof writes a report to the workflow and to the requested files. A failure at GitHub
// becomes a note in it; a file that cannot be written is an error. w may be nil.
func deliverProof(paths Paths, w *workflow, report *prove.Report, to ProveReports) error {
	if w != nil {
		report.Notes = append(report.Notes, w.writeProof(*report, to)...)
	}
	var failed error
	for _, file := range []struct {
		path   string
		format provereport.Format
	}{{to.JUnit, provereport.JUnit}, {to.Markdown, provereport.Markdown}, {to.JSON, provereport.JSON}} {
		if file.path != "" {
			if err := writeReport(paths.Path(file.path), func(out io.Writer) error { return file.format(out, *report) }); err != nil {
				failed = errors.Join(failed, fmt.Errorf("write the report %s: %w", file.path, err))
			}
		}
	}
	return failed
}

// writeProof writes the summary, annotations and outputs of the workflow.
func (w *workflow) writeProof(report prove.Report, to ProveReports) (notes []string) {
	var text bytes.Buffer
	limit := min(provereport.DefaultLimit, github.SummarySpace(w.getenv))
	err := provereport.MarkdownLimit(limit)(&text, report)
	if err = errors.Join(err, github.AppendSummary(w.getenv, text.Bytes())); err != nil {
		notes = append(notes, "the job summary is missing: "+err.Error())
	}
	if !to.NoAnnotations {
		_ = provereport.Annotations(w.commands, report) // the reader may be gone
	}
	for _, o := range [][2]string{{"verdict", string(report.Outcome())}, {"result-path", resultIn(report.Dir)}, {"junit-path", to.JUnit}} {
		if err := github.SetOutput(w.getenv, o[0], o[1]); err != nil {
			notes = append(notes, "the step's outputs are incomplete: "+err.Error())
		}
	}
	return notes
}

// resultIn returns the path of the result.json in a job's directory; "" without a directory.
func resultIn(dir string) string {
	if dir == "" {
		return ""
	}
	return dir + "/" + result.ResultFile
}
