package proof

import (
	"cmp"
	"io"

	"github.com/org/rollout-action/internal/prove"
)

// Format writes a report. It shows nothing that comes from outside without making it safe.
type Format func(w io.Writer, in prove.Report) error

// Formats are all of them, by name.
var Formats = map[string]Format{
	"json":        JSON,
	"junit":       JUnit,
	"annotations": Annotations,
	"markdown":    Markdown,
}

// place is where a finding is as seen from the top of the repository; outside git, as people would type it.
func place(p prove.Proof, f prove.Finding) string { return p.Place(f, cmp.Or(p.Path, p.Dir)) }
