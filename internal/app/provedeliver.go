package app

import (
	"bytes"
	"errors"
	"io"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/forge/github"
	"github.com/org/rollout-action/internal/run/prove"
	"github.com/org/rollout-action/reporters"
)

// deliverProof writes a report to the workflow and to the requested files. A failure at GitHub
// becomes a note in it; a file that cannot be written is an error. w may be nil.
func deliverProof(h *Host, w *workflow, report *prove.Report, to ProveReports) error {
	if w != nil {
		report.Notes = append(report.Notes, w.writeProof(*report, to)...)
	}
	return writeReports(h.Paths, to.Files, func(out io.Writer, format string) error {
		return h.formats().WriteProof(out, format, *report, reporters.Options{})
	})
}

// writeProof writes the summary, annotations and outputs of the workflow.
func (w *workflow) writeProof(report prove.Report, to ProveReports) (notes []string) {
	var text bytes.Buffer
	err := w.formats.WriteProof(&text, reporters.Summary, report, w.summaryOptions())
	if err = errors.Join(err, github.AppendSummary(w.getenv, text.Bytes())); err != nil {
		notes = append(notes, "the job summary is missing: "+err.Error())
	}
	if !to.NoAnnotations {
		_ = w.formats.WriteProof(w.commands, reporters.Annotations, report, reporters.Options{}) // the reader may be gone
	}
	for _, o := range [][2]string{{"verdict", string(report.Outcome())}, {"result-path", resultIn(report.Dir)}, {"junit-path", casesIn(to.Files)}} {
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
