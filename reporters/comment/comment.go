package comment

import (
	"cmp"
	"io"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/reporters/internal/sections"
)

// DefaultLimit is the size of a comment that GitHub accepts, in bytes or characters, minus a
// kilobyte for the marker.
const DefaultLimit = 65_536 - 1024

// Reporter writes the body of the comment. It implements report.Reporter.
type Reporter struct {
	// Limit bounds the bytes that are written; 0 means DefaultLimit. To stay within it, detail is
	// dropped in the same order as in the job summary: more and more of what changed and failed,
	// then everything but counts.
	Limit int
}

// details are the levels of detail down to counts only. Tasks that passed and did not change are
// only counted in all of them.
var details = []sections.Detail{
	{Short: true, Rows: 200, Excerpts: 10, Lines: 15},
	{Short: true, Rows: 100, Excerpts: 5, Lines: 10, Omitted: "some of the tasks that changed or failed"},
	{Short: true, Rows: 50, Excerpts: 3, Lines: 5, Omitted: "some of the tasks that changed or failed"},
	{Short: true, Rows: 20, Excerpts: 1, Lines: 5, Omitted: "most of the tasks that changed or failed"},
	{Short: true, Rows: 5, Omitted: "most of the tasks that changed or failed"},
	{Short: true, Omitted: "all single tasks"},
	{Short: true, Brief: true, Omitted: "everything else"},
}

// Write implements report.Reporter.
func (r Reporter) Write(w io.Writer, in report.Input) error {
	_, err := io.WriteString(w, sections.Fit(in, cmp.Or(r.Limit, DefaultLimit), details, body))
	return err
}

func body(p *sections.Page) string {
	if p.Detail().Brief {
		return sections.Join(p.Title(), p.Reason(), p.Footer())
	}
	return sections.Join(
		p.Title(), p.Reason(), p.Numbers(), p.Past(false), p.Usage(), p.Scores(), p.Versus(), p.Changes(), p.Failed(),
		folded("What the gate checked", p.Checks()), folded("Results for each agent and dataset", p.Groups()), folded("Why tasks failed", p.Failures("####")),
		p.Footer(),
	)
}

func folded(summary, body string) string {
	if body == "" {
		return ""
	}
	return sections.Details(summary, body)
}
