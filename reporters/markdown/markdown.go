package markdown

import (
	"cmp"
	"io"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/reporters/internal/sections"
)

// DefaultLimit is below the 1,048,576 bytes above which GitHub drops the whole summary of a step:
// the runner masks secrets in it, which may make it longer. Source: actions/runner,
// FileCommandManager.cs.
const DefaultLimit = 1_000_000

// Reporter writes the page. It implements report.Reporter.
type Reporter struct {
	// Limit bounds the bytes that are written; 0 means DefaultLimit. To stay within it, detail is
	// dropped in this order: tasks that passed and did not change; more and more of what changed
	// and failed; everything but counts.
	Limit int
}

// details are the levels of detail, from everything to counts only.
var details = []sections.Detail{
	{All: true, Rows: 100_000, Excerpts: 100, Lines: 30},
	{Rows: 100_000, Excerpts: 100, Lines: 30, Omitted: "tasks that passed and did not change"},
	{Rows: 1000, Excerpts: 50, Lines: 20, Omitted: "tasks that passed and did not change, and some that changed or failed"},
	{Rows: 200, Excerpts: 20, Lines: 10, Omitted: "tasks that passed and did not change, and many that changed or failed"},
	{Rows: 20, Excerpts: 5, Lines: 5, Omitted: "tasks that passed and did not change, and most that changed or failed"},
	{Omitted: "all single tasks"},
	{Brief: true, Omitted: "everything else"},
}

// Write implements report.Reporter.
func (r Reporter) Write(w io.Writer, in report.Input) error {
	_, err := io.WriteString(w, sections.Fit(in, cmp.Or(r.Limit, DefaultLimit), details, page))
	return err
}

func page(p *sections.Page) string {
	if p.Detail().Brief {
		return sections.Join(p.Title(), p.Reason(), p.Footer())
	}
	failures := p.Failures("####")
	if failures != "" {
		failures = sections.Join("### Why", failures)
	}
	return sections.Join(p.Title(), p.Reason(), p.Numbers(), p.Past(true), p.Usage(), p.Scores(), p.Versus(), p.Checks(), p.Changes(), p.Failed(), p.Groups(), failures, p.Everything(), p.Footer())
}
