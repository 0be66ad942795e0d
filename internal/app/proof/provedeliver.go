package proof

import (
	"bytes"
	"errors"
	"io"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/forge/github/step"
	"github.com/org/rollout-action/internal/run/prove"
	"github.com/org/rollout-action/reporters"
)

// deliverProof writes a report to the workflow and to the requested files. A failure at GitHub
// becomes a note in it; a file that cannot be written is an error. w may be nil.
func deliverProof(h *host.Host, w *reporting.Workflow, report *prove.Report, to ProveReports) error {
	if w != nil {
		report.Notes = append(report.Notes, writeProof(w, *report, to)...)
	}
	return reporting.WriteReports(h.Paths, to.Files, func(out io.Writer, format string) error {
		return h.Formats().WriteProof(out, format, *report, reporters.Options{})
	})
}

// writeProof writes the summary, annotations and outputs of the workflow.
func writeProof(w *reporting.Workflow, report prove.Report, to ProveReports) (notes []string) {
	var text bytes.Buffer
	err := w.Formats.WriteProof(&text, reporters.Summary, report, w.SummaryOptions())
	if err = errors.Join(err, step.AppendSummary(w.Getenv, text.Bytes())); err != nil {
		notes = append(notes, "the job summary is missing: "+err.Error())
	}
	if !to.NoAnnotations {
		_ = w.Formats.WriteProof(w.Commands, reporters.Annotations, report, reporters.Options{}) // the reader may be gone
	}
	for _, o := range [][2]string{{"verdict", string(report.Outcome())}, {"result-path", resultIn(report.Dir)}, {"junit-path", reporting.CasesIn(to.Files)}} {
		if err := step.SetOutput(w.Getenv, o[0], o[1]); err != nil {
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
