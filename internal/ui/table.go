package ui

import (
	"slices"
	"strconv"
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/lipgloss/table"

	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/untrusted"
)

const (
	nameColumns = 2
	columnGap   = 2
	// minTableName is how much of an agent's or a dataset's name has to be seen for it to be known again.
	minTableName = 10
)

// column is a column of the table, with its heading in full and for narrow terminals.
type column struct {
	long, short string
	value       func(result.Group) string
}

// columns are those of the table; a short one leaves out what is 0 everywhere and often is.
func (s *summary) columns(short bool) []column {
	count := func(n func(result.Group) int) func(result.Group) string {
		return func(g result.Group) string { return strconv.Itoa(n(g)) }
	}
	rate := func(show func(result.Group) string) func(result.Group) string {
		return func(g result.Group) string {
			if g.CompletedTrials == 0 {
				return "–"
			}
			return show(g)
		}
	}
	columns := []column{
		{"agent", "agent", func(g result.Group) string { return lineStart(untrusted.Line(g.Agent)) }},
		{"dataset", "dataset", func(g result.Group) string { return untrusted.Line(g.Dataset) }},
		{"trials", "trials", count(func(g result.Group) int { return g.TotalTrials })},
		{"completed", "done", count(func(g result.Group) int { return g.CompletedTrials })},
		{"failed", "failed", count(func(g result.Group) int { return g.FailedTrials })},
	}
	if !short || s.Job.SkippedTrials > 0 {
		columns = append(columns, column{"skipped", "skipped", count(func(g result.Group) int { return g.SkippedTrials })})
	}
	columns = append(columns,
		column{"pass rate", "pass", rate(func(g result.Group) string { return percent(g.PassRate) })},
		column{"mean reward", "mean", rate(func(g result.Group) string { return aligned(g.MeanReward) })},
	)
	for i, m := range s.Job.Metrics {
		if m.Type != "mean" { // it has a column already
			kind := untrusted.Line(m.Type)
			columns = append(columns, column{kind, kind, func(g result.Group) string { return metricValue(g.Metrics, i) }})
		}
	}
	if s.Job.TotalCost > 0 {
		columns = append(columns, column{"cost", "cost", func(g result.Group) string { return dollars(g.TotalCost) }})
	}
	return append(columns, column{"avg time", "time", s.meanTime})
}

func metricValue(metrics []result.Metric, i int) string {
	if i >= len(metrics) || metrics[i].Value == nil {
		return "–"
	}
	return aligned(*metrics[i].Value)
}

func dollars(cost float64) string { return "$" + strconv.FormatFloat(cost, 'f', 2, 64) }

// table is a line per agent and dataset and a total, or, where that does not fit, a paragraph for each.
func (s *summary) table() []string {
	groups := s.Groups
	if len(groups) != 1 {
		groups = append(slices.Clone(groups), result.Group{Agent: "total", Summary: s.Job.Summary})
	}
	heads, rows := s.cells(groups, false)
	if fitted := fit(heads, rows, s.width); fitted != nil {
		return s.draw(heads, fitted)
	}
	shortHeads, shortRows := s.cells(groups, true)
	if fitted := fit(shortHeads, shortRows, s.width); fitted != nil {
		return s.draw(shortHeads, fitted)
	}
	return s.paragraphs(heads, rows)
}

func (s *summary) cells(groups []result.Group, short bool) (heads []string, rows [][]string) {
	columns := s.columns(short)
	for _, c := range columns {
		if short {
			heads = append(heads, c.short)
		} else {
			heads = append(heads, c.long)
		}
	}
	for _, g := range groups {
		var row []string
		for _, c := range columns {
			row = append(row, c.value(g))
		}
		rows = append(rows, row)
	}
	return heads, rows
}

// meanTime is how long a trial of the group took on average; that of the total is over all.
func (s *summary) meanTime(g result.Group) string {
	sum, n := 0.0, 0
	for _, t := range s.Trials {
		if g.Dataset == "" || t.Agent == g.Agent && t.Dataset == g.Dataset {
			sum += t.Durations.TotalSec
			n++
		}
	}
	if n == 0 {
		return "–"
	}
	return took(sum / float64(n))
}

// fit shortens the names so that the table is at most width cells wide; nil when they would not be
// readable any more.
func fit(heads []string, rows [][]string, width int) [][]string {
	widths := make([]int, len(heads))
	for _, row := range append([][]string{heads}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], lipgloss.Width(cell))
		}
	}
	room := width + columnGap
	for i, w := range widths {
		room -= columnGap
		if i >= nameColumns {
			room -= w
		}
	}
	agent, dataset := widths[0], widths[1]
	if agent+dataset > room {
		agent = min(agent, max(room/2, room-dataset))
		dataset = min(dataset, room-agent)
		if agent < min(minTableName, widths[0]) || dataset < min(minTableName, widths[1]) {
			return nil
		}
	}
	fitted := make([][]string, len(rows))
	for i, row := range rows {
		fitted[i] = append([]string{cutMiddle(row[0], agent), cutMiddle(row[1], dataset)}, row[nameColumns:]...)
	}
	return fitted
}

func (s *summary) draw(heads []string, rows [][]string) []string {
	hasTotal := len(rows) > 1
	drawn := table.New().Headers(heads...).Rows(rows...).
		Border(lipgloss.NormalBorder()).BorderStyle(s.look.dim).
		BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).BorderColumn(false).
		StyleFunc(func(row, col int) lipgloss.Style {
			style := s.look.dim
			if row >= 0 {
				style = lipgloss.NewStyle()
			}
			if hasTotal && row == len(rows)-1 {
				style = s.look.bold
			}
			if col < len(heads)-1 {
				style = style.PaddingRight(columnGap)
			}
			if col >= nameColumns {
				style = style.Align(lipgloss.Right)
			}
			return style
		})
	return strings.Split(drawn.String(), "\n")
}

// paragraphs are the same rows, each cell with its heading in front.
func (s *summary) paragraphs(heads []string, rows [][]string) []string {
	var lines []string
	for _, row := range rows {
		title := strings.TrimSuffix(row[0]+" · "+row[1], " · ")
		lines = append(lines, "• "+s.look.bold.Render(cutMiddle(title, s.width-2)))
		text := "  "
		for i, cell := range row[nameColumns:] {
			part := heads[nameColumns+i] + " " + cell
			if lipgloss.Width(text)+lipgloss.Width(part)+columnGap > s.width && text != "  " {
				lines = append(lines, text)
				text = "  "
			}
			text += part + "  "
		}
		lines = append(lines, text)
	}
	return lines
}

// lineStart makes text safe at the start of a line, where GitHub's runner takes "::" for a command.
func lineStart(text string) string {
	if strings.HasPrefix(text, ":") {
		return strconv.Quote(text)
	}
	return text
}
