package provereport

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

// perType bounds the annotations of each type. GitHub's runner keeps so many for a step.
// Source: actions/runner, ExecutionContext.cs, _maxCountPerIssueType.
const perType = 10

// Annotations writes a workflow command for each finding that counts, at its place in the
// repository: an error if the task fails by it, otherwise a warning. It writes as many of each type
// as the runner keeps; the last one names the number of the others.
func Annotations(w io.Writer, in prove.Report) error {
	var b strings.Builder
	for _, severity := range []prove.Severity{prove.Error, prove.Warning} {
		var lines []string
		for _, p := range in.Tasks {
			for _, f := range p.Findings {
				if f.Severity == severity && f.Ignored == "" {
					lines = append(lines, annotation(p, f))
				}
			}
		}
		if n := len(lines); n > perType {
			lines = append(lines[:perType-1], fmt.Sprintf("::%s title=Rollout::and %d more of this kind: see the job summary\n", severity, n-perType+1))
		}
		b.WriteString(strings.Join(lines, ""))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func annotation(p prove.TaskReport, f prove.Finding) string {
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
		text = place(p, f) + ": " + text
	}
	if f.Hint != "" {
		text += "\n" + f.Hint
	}
	return fmt.Sprintf("::%s %stitle=%s::%s\n", f.Severity, props, untrusted.CommandProperty(title), untrusted.CommandData(text))
}
