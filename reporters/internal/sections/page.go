package sections

import (
	"math"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/excerpt"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// Detail is a level of detail.
type Detail struct {
	All      bool // a table of every task, including those that passed and did not change
	Rows     int  // of each table; 0: counts only
	Excerpts int  // failures with the end of a log
	Lines    int  // of each log
	// Short leaves the statistics behind the reason to the table of checks, has one pass rate for
	// each agent, and opens OpenRows of a table.
	Short bool
	// Brief keeps only the title, the reason and the list of missing parts.
	Brief bool
	// Omitted tells the reader what this level omits; "" if nothing.
	Omitted string
}

// OpenRows are the rows of a table that a short page shows; the others are folded.
const OpenRows = 20

// Page makes the sections for a job.
type Page struct {
	in     report.Input
	cases  []report.Case
	detail Detail
	room   int                             // rows whose cells have more bytes cannot fit
	many   struct{ agents, datasets bool } // more than one, so tables have a column for them

	// What follows is the same at all levels of detail, of which a large job needs many until one
	// fits.
	title        string
	problems     []*report.Case // see report.Problems
	kinds        []failures
	moved, other []changed // see changes
	odd          []string  // see environments
	explanations map[result.Key]explanation
}

// explanation is what a trial's files explain.
type explanation struct {
	file   string
	log    excerpt.Text
	tests  report.Tests
	tested bool
}

func (p *Page) explain(t result.Trial) explanation {
	e, ok := p.explanations[t.Key]
	if !ok {
		e.file, e.log = report.Explain(p.in, t)
		e.tests, e.tested = report.VerifierTests(p.in, t)
		p.explanations[t.Key] = e
	}
	return e
}

// Fit returns the page with the most detail whose text is at most limit bytes long. details go from
// much to little. Between one that does not fit and the next, which does, Fit looks for the largest
// number of rows that still fits. If none fits, it returns the title line, and if that is too long,
// nothing.
func Fit(in report.Input, limit int, details []Detail, render func(*Page) string) string {
	p := newPage(in)
	p.room = 2 * limit // as columns may be left out, see telling, which are less than half of a row
	return p.fit(limit, details, render)
}

func (p *Page) fit(limit int, details []Detail, render func(*Page) string) string {
	rows, tooMany := max(len(p.cases), len(p.moved), len(p.other)), 0
	for _, d := range details {
		p.detail = d
		text := render(p)
		if len(text) <= limit {
			return p.fill(text, tooMany, limit, render)
		}
		tooMany = min(d.Rows, rows+1) // the next level may have fewer columns, too
	}
	if title := p.Title(); len(title) <= limit {
		return title
	}
	return ""
}

// newPage returns a page without a level of detail, and without a bound of its rows.
func newPage(in report.Input) *Page {
	p := &Page{in: in, cases: report.Cases(in), room: math.MaxInt, explanations: map[result.Key]explanation{}}
	for _, c := range p.cases {
		p.many.agents = p.many.agents || c.Agent != p.cases[0].Agent
		p.many.datasets = p.many.datasets || c.Dataset != p.cases[0].Dataset
	}
	p.title, p.problems, p.odd = "## "+in.Title(p.cases)+"\n", report.Problems(p.cases), environments(in)
	p.kinds = byKind(p.problems)
	p.moved, p.other = changes(in, p.cases)
	return p
}

// fill returns the page with as many rows as fit, fewer than tooMany and not fewer than text has,
// which fits.
func (p *Page) fill(text string, tooMany, limit int, render func(*Page) string) string {
	if p.detail.Rows == 0 {
		return text // counts only
	}
	for fits := p.detail.Rows; tooMany-fits > 1; {
		p.detail.Rows = fits + (tooMany-fits)/2
		if more := render(p); len(more) <= limit {
			text, fits = more, p.detail.Rows
		} else {
			tooMany = p.detail.Rows
		}
	}
	return text
}

// Detail returns the level of detail of the page.
func (p *Page) Detail() Detail { return p.detail }

// Join joins sections with blank lines. Empty ones are left out.
func Join(sections ...string) string {
	var b strings.Builder
	for _, s := range sections {
		if s = strings.Trim(s, "\n"); s == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(s + "\n")
	}
	return b.String()
}

// Bounds of texts from outside, in bytes before they are made safe.
const (
	maxName     = 150
	maxSentence = 600
	maxList     = 30 // sentences of one kind
)

// words returns a sentence from outside as Markdown.
func words(s string) string {
	return untrusted.Markdown(untrusted.Cut(untrusted.Line(s), maxSentence))
}

// name returns a name from outside as Markdown.
func name(s string) string { return untrusted.Code(untrusted.Cut(untrusted.Line(s), maxName)) }

// list returns an item for each sentence from outside.
func list(sentences []string) string {
	var b strings.Builder
	for i, s := range sentences {
		if i == maxList {
			b.WriteString("- … and " + report.Count(len(sentences)-i) + " more\n")
			break
		}
		b.WriteString("- " + words(s) + "\n")
	}
	return b.String()
}

// Details folds a body below a summary, which is HTML.
func Details(summary, body string) string {
	return "<details>\n<summary>" + summary + "</summary>\n\n" + strings.Trim(body, "\n") + "\n\n</details>\n"
}

// table returns a Markdown table. Columns whose heading begins with ">" are aligned to the right.
// Cells must not have line breaks.
func table(head []string, rows [][]string) string {
	if len(rows) == 0 {
		return ""
	}
	var b strings.Builder
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	names, rule := make([]string, len(head)), make([]string, len(head))
	for i, h := range head {
		names[i], rule[i] = h, "---"
		if right, ok := strings.CutPrefix(h, ">"); ok {
			names[i], rule[i] = right, "--:"
		}
	}
	line(names)
	line(rule)
	for _, r := range rows {
		line(r)
	}
	return b.String()
}

// long returns a table as table does. A short page shows its first rows, and folds the others.
func (p *Page) long(head []string, rows [][]string) string {
	if !p.detail.Short || len(rows) <= OpenRows {
		return table(head, rows)
	}
	return Join(table(head, rows[:OpenRows]), Details(report.Count(len(rows)-OpenRows)+" more", table(head, rows[OpenRows:])))
}

// telling leaves out the columns of numbers in which no row shows a change.
func telling(head []string, rows [][]string) ([]string, [][]string) {
	var keep []int
	for i, h := range head {
		says := slices.ContainsFunc(rows, func(r []string) bool { return r[i] != "±0" && r[i] != "–" && r[i] != "" })
		if says || !changing[h] {
			keep = append(keep, i)
		}
	}
	pick := func(cells []string) []string {
		out := make([]string, 0, len(keep))
		for _, i := range keep {
			out = append(out, cells[i])
		}
		return out
	}
	kept := make([][]string, 0, len(rows))
	for _, r := range rows {
		kept = append(kept, pick(r))
	}
	return pick(head), kept
}

// changing are the columns of tables of changes that may have nothing to say.
var changing = map[string]bool{">Change": true, ">Cost change": true, ">Time change": true, ">change": true}

// first returns as many of n rows as the level of detail allows, and a sentence about the others.
// row returns one of them.
func (p *Page) first(n int, row func(i int) []string) (kept [][]string, more string) {
	shown := min(n, p.detail.Rows)
	kept = p.rows(shown, row)
	if shown < n {
		more = "\n… and " + report.Count(n-shown) + " more.\n"
	}
	return kept, more
}

// rows returns n rows, or fewer whose page is too long already: a large job has many more than fit.
func (p *Page) rows(n int, row func(i int) []string) (rows [][]string) {
	for i, size := 0, 0; i < n && size <= p.room; i++ {
		rows = append(rows, row(i))
		for _, cell := range rows[i] {
			size += len(cell)
		}
	}
	return rows
}
