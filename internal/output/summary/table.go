package summary

import (
	"strconv"
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/lipgloss/table"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/output/termtext"
)

const (
	nameColumns = 2
	columnGap   = 2
	// minTableName is the least width of an agent's or dataset's name at which it is recognisable.
	minTableName = 10
)

// row is a line of the table.
type row struct {
	result.Group
	of    func(result.Key) bool // reports whether a trial belongs to it
	mixed bool                  // its trials have different agents
}

// column is a column of the table, with a long and a short heading.
type column struct {
	long, short string
	value       func(row) string
}

// columns returns the columns of the table. If short, it leaves out columns that often are 0
// everywhere and are so here.
func (s *summary) columns(short bool) []column {
	count := func(n func(row) int) func(row) string {
		return func(r row) string { return strconv.Itoa(n(r)) }
	}
	rate := func(show func(row) string) func(row) string {
		return func(r row) string {
			if r.CompletedTrials == 0 || r.mixed {
				return "–"
			}
			return show(r)
		}
	}
	columns := []column{
		{"agent", "agent", func(r row) string { return termtext.LineStart(untrusted.Line(r.Agent)) }},
		{"dataset", "dataset", func(r row) string { return untrusted.Line(r.Dataset) }},
		{"trials", "trials", count(func(r row) int { return r.TotalTrials })},
		{"completed", "done", count(func(r row) int { return r.CompletedTrials })},
		{"failed", "failed", count(func(r row) int { return r.FailedTrials })},
	}
	if !short || s.Job.SkippedTrials > 0 {
		columns = append(columns, column{"skipped", "skipped", count(func(r row) int { return r.SkippedTrials })})
	}
	columns = append(columns,
		column{"pass rate", "pass", rate(func(r row) string { return termtext.Percent(r.PassRate) })},
		column{"mean reward", "mean", rate(func(r row) string { return termtext.Aligned(r.MeanReward) })},
	)
	for i, m := range s.Job.Metrics {
		if m.Type != "mean" { // already a column
			kind := untrusted.Line(m.Type)
			columns = append(columns, column{kind, kind, rate(func(r row) string { return metricValue(r.Metrics, i) })})
		}
	}
	if _, ok := s.Job.TotalCost.Reported(); ok {
		columns = append(columns, column{"cost", "cost", func(r row) string { return dollars(r.TotalCost) }})
	}
	return append(columns, column{"avg time", "time", s.meanTime})
}

func metricValue(metrics []result.Metric, i int) string {
	if i >= len(metrics) || metrics[i].Value == nil {
		return "–"
	}
	return termtext.Aligned(*metrics[i].Value)
}

func dollars(cost result.USD) string {
	usd, ok := cost.Reported()
	if !ok {
		return "–" // not reported
	}
	return report.AtLeast(cost) + "$" + strconv.FormatFloat(usd, 'f', 2, 64)
}

// table returns a line per agent and dataset and a total or, if that does not fit, a paragraph for
// each. A job without trials has no table.
func (s *summary) table() []string {
	if s.Job.TotalTrials == 0 {
		return nil
	}
	lines := s.rows()
	heads, rows := s.cells(lines, false)
	if fitted := fit(heads, rows, s.width); fitted != nil {
		return s.draw(heads, fitted, len(fitted) > 1)
	}
	shortHeads, shortRows := s.cells(lines, true)
	if fitted := fit(shortHeads, shortRows, s.width); fitted != nil {
		return s.draw(shortHeads, fitted, len(fitted) > 1)
	}
	return s.paragraphs(heads, rows)
}

// rows returns a row for each agent and dataset, one for each agent with several datasets, and a
// total. The total has rates only if there is one agent: a rate over different agents describes
// none of them.
func (s *summary) rows() []row {
	datasets := map[string]int{}
	for _, g := range s.Groups {
		datasets[g.Agent]++
	}
	many := len(datasets) > 1
	var rows []row
	for i, g := range s.Groups {
		rows = append(rows, row{Group: g, of: func(k result.Key) bool { return k.Agent == g.Agent && k.Dataset == g.Dataset }})
		last := i == len(s.Groups)-1 || s.Groups[i+1].Agent != g.Agent
		if last && many && datasets[g.Agent] > 1 {
			total := result.Group{Agent: g.Agent, Dataset: "(all)", Summary: s.Job.Agents[g.Agent]}
			rows = append(rows, row{Group: total, of: func(k result.Key) bool { return k.Agent == g.Agent }})
		}
	}
	if len(rows) == 1 {
		return rows
	}
	total := result.Group{Agent: "total", Summary: s.Job.Summary}
	return append(rows, row{Group: total, of: func(result.Key) bool { return true }, mixed: many})
}

func (s *summary) cells(lines []row, short bool) (heads []string, rows [][]string) {
	columns := s.columns(short)
	for _, c := range columns {
		if short {
			heads = append(heads, c.short)
		} else {
			heads = append(heads, c.long)
		}
	}
	for _, line := range lines {
		var cells []string
		for _, c := range columns {
			cells = append(cells, c.value(line))
		}
		rows = append(rows, cells)
	}
	return heads, rows
}

// meanTime returns the average time of the row's trials, without the wait for images.
func (s *summary) meanTime(r row) string {
	var m result.Means
	for _, t := range s.trials {
		if r.of(t.Key()) {
			m.Add(result.OutcomeOf(*t.Unpack()))
		}
	}
	if mean := m.Duration(); mean != nil {
		return termtext.Took(*mean)
	}
	return "–"
}

// fit shortens names so that the table is at most width cells wide. It returns nil if they would
// become unreadable.
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
		fitted[i] = append([]string{termtext.CutMiddle(row[0], agent), termtext.CutMiddle(row[1], dataset)}, row[nameColumns:]...)
	}
	return fitted
}

// draw draws a table; hasTotal says that its last row is a total.
func (s *summary) draw(heads []string, rows [][]string, hasTotal bool) []string {
	drawn := table.New().Headers(heads...).Rows(rows...).
		Border(lipgloss.NormalBorder()).BorderStyle(s.styles.Dim).
		BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).BorderColumn(false).
		StyleFunc(func(row, col int) lipgloss.Style {
			style := s.styles.Dim
			if row >= 0 {
				style = lipgloss.NewStyle()
			}
			if hasTotal && row == len(rows)-1 {
				style = s.styles.Bold
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

// paragraphs returns the same rows with the heading before each cell.
func (s *summary) paragraphs(heads []string, rows [][]string) []string {
	var lines []string
	for _, row := range rows {
		title := strings.TrimSuffix(row[0]+" · "+row[1], " · ")
		lines = append(lines, "• "+s.styles.Bold.Render(termtext.CutMiddle(title, s.width-2)))
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
