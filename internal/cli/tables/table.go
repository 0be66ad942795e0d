// Package tables prints rows of text with aligned columns or as Markdown.
package tables

import (
	"io"
	"strings"

	"github.com/org/rollout-action/internal/lib/untrusted"
)

// Table prints rows with aligned columns. A line must not begin with text from outside: GitHub
// takes "::" there for a command. A cell is as wide as a terminal shows it: CJK and emoji take two
// places.
type Table struct {
	to   io.Writer
	rows [][]string
}

// New returns a table that is printed to a writer.
func New(to io.Writer) *Table { return &Table{to: to} }

// Row adds a row. The last cell of a row makes no column wider.
func (t *Table) Row(cells ...string) { t.rows = append(t.rows, cells) }

// columnGap is the space between two columns.
const columnGap = 2

// Flush prints the rows.
func (t *Table) Flush() error {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row[:max(0, len(row)-1)] {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], untrusted.Width(cell))
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-untrusted.Width(cell)+columnGap))
			}
		}
		b.WriteByte('\n')
	}
	t.rows = nil
	_, err := io.WriteString(t.to, b.String())
	return err
}

// Markdown writes a table of GitHub's Markdown. Its cells may be hostile.
func Markdown(b *strings.Builder, header []string, rows [][]string) {
	line := func(cells []string) {
		for _, c := range cells {
			b.WriteString("| " + untrusted.Markdown(untrusted.Cut(untrusted.Line(c), 200)) + " ")
		}
		b.WriteString("|\n")
	}
	line(header)
	b.WriteString(strings.Repeat("|---", len(header)) + "|\n")
	for _, r := range rows {
		line(r)
	}
}

// Cell makes text from outside fit for a table.
func Cell(text string) string { return untrusted.Cut(untrusted.Line(text), 80) }
