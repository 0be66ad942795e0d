package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/org/rollout-action/internal/github"
	"github.com/org/rollout-action/internal/prove"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/reporters/provereport"
)

// deliverProof writes a report to where it is wanted. What GitHub refuses is a note in it; a file that cannot be written
// is an error.
func (a *app) deliverProof(report *prove.Report, how *proveFlags) error {
	w, notes := a.workflow(reportFlags{github: how.github})
	report.Notes = append(report.Notes, notes...)
	if w != nil {
		report.Notes = append(report.Notes, a.leaveProof(w, *report, how)...)
	}
	var failed error
	for _, file := range []struct {
		path   string
		format provereport.Format
	}{{how.junit, provereport.JUnit}, {how.markdown, provereport.Markdown}, {how.asJSON, provereport.JSON}} {
		if file.path != "" {
			if err := a.writeProveReport(file.path, file.format, *report); err != nil {
				failed = errors.Join(failed, fmt.Errorf("write the report %s: %w", file.path, err))
			}
		}
	}
	return failed
}

func (a *app) writeProveReport(path string, format provereport.Format, report prove.Report) error {
	var text bytes.Buffer
	if err := format(&text, report); err != nil {
		return err
	}
	full := a.path(path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return err
	}
	return result.WriteFile(full, text.Bytes())
}

// leaveProof writes the summary, annotations and outputs of the workflow.
func (a *app) leaveProof(w *workflow, report prove.Report, how *proveFlags) (notes []string) {
	var text bytes.Buffer
	limit := min(provereport.DefaultLimit, github.SummarySpace(w.getenv))
	err := provereport.MarkdownLimit(limit)(&text, report)
	if err = errors.Join(err, github.AppendSummary(w.getenv, text.Bytes())); err != nil {
		notes = append(notes, "the job summary is missing: "+err.Error())
	}
	if how.format != "annotations" { // which would be the second of each
		_ = provereport.Annotations(a.Stderr, report) // nobody may be reading it any more
	}
	for _, o := range [][2]string{{"verdict", string(report.Outcome())}, {"result-path", resultIn(report.Dir)}, {"junit-path", how.junit}} {
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
