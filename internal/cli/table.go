package cli

import (
	"io"
	"strings"

	"github.com/org/rollout-action/internal/lib/untrusted"
)

// table prints rows with aligned columns. A line must not begin with text from outside: GitHub
// takes "::" there for a command. A cell is as wide as a terminal shows it: CJK and emoji take two
// places.
type table struct {
	to   io.Writer
	rows [][]string
}

func newTable(to io.Writer) *table { return &table{to: to} }

// row adds a row. The last cell of a row makes no column wider.
func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

// columnGap is the space between two columns.
const columnGap = 2

// flush prints the rows.
func (t *table) flush() error {
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
