package annotations

import (
	"cmp"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/run/prove"
)

// Proof writes the report of rollout validate --run: a workflow command for each finding that
// counts, at its place in the repository: an error if the task fails by it, otherwise a warning. It
// writes as many of each type as the runner keeps; the last one names the number of the others.
func Proof(w io.Writer, in prove.Report) error {
	var b strings.Builder
	for _, severity := range []prove.Severity{prove.Error, prove.Warning} {
		var lines []string
		for _, p := range in.Tasks {
			for _, f := range p.Findings {
				if f.Severity == severity && f.Ignored == "" {
					lines = append(lines, findingLine(p, f))
				}
			}
		}
		if n := len(lines); n > DefaultPerType {
			lines = append(lines[:DefaultPerType-1], fmt.Sprintf("::%s title=Rollout::and %d more of this kind: see the job summary\n", severity, n-DefaultPerType+1))
		}
		b.WriteString(strings.Join(lines, ""))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// findingLine returns the command for a finding of a task.
func findingLine(p prove.TaskReport, f prove.Finding) string {
	props := ""
	if !p.Fetched { // else the file is in no checkout
		file := path.Join(cmp.Or(p.Path, p.Dir), cmp.Or(f.File, "task.toml")) // a directory cannot be annotated
		props = "file=" + untrusted.CommandProperty(file) + ","
		if f.Line > 0 {
			props += "line=" + strconv.Itoa(f.Line) + ","
		}
		if f.Line > 0 && f.Column > 0 {
			props += "col=" + strconv.Itoa(f.Column) + ","
		}
	}
	title := untrusted.Cut(fmt.Sprintf("%s: %s (%s)", untrusted.Line(p.Task), f.Rule, p.Verdict.Words()), 200)
	text := f.Message
	if p.Fetched {
		text = p.PlaceInRepository(f) + ": " + text
	}
	if f.Hint != "" {
		text += "\n" + f.Hint
	}
	return fmt.Sprintf("::%s %stitle=%s::%s\n", f.Severity, props, untrusted.CommandProperty(title), untrusted.CommandData(text))
}
