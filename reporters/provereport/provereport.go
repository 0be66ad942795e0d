package provereport

import (
	"cmp"
	"io"

	"github.com/org/rollout-action/internal/run/prove"
)

// Format writes a report. It makes everything safe that comes from outside.
type Format func(w io.Writer, in prove.Report) error

// Formats lists all formats by name.
var Formats = map[string]Format{
	"json":        JSON,
	"junit":       JUnit,
	"annotations": Annotations,
	"markdown":    Markdown,
}

// place returns the place of a finding relative to the root of the repository; outside git, as a
// user would type it.
func place(p prove.TaskReport, f prove.Finding) string { return p.Place(f, cmp.Or(p.Path, p.Dir)) }
