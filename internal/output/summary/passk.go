package summary

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/charmbracelet/lipgloss"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/output/termtext"
)

// attempts returns pass@k and pass^k for each agent with several attempts at a task.
func (s *summary) attempts() []string {
	var rows [][]string
	part := false
	for _, agent := range slices.Sorted(maps.Keys(s.Job.Agents)) {
		shown := result.ShownPassK(s.Job.Agents[agent].PassK)
		if len(shown) == 0 {
			continue
		}
		words := []string{termtext.LineStart(termtext.CutMiddle(untrusted.Line(agent), s.width/2))}
		for _, p := range shown {
			words = append(words, fmt.Sprintf("pass@%d %s", p.K, s.styles.Bold.Render(termtext.Percent(p.PassAt))))
			part = part || p.Tasks < shown[0].Tasks
		}
		for _, p := range shown {
			if p.K > 1 {
				words = append(words, fmt.Sprintf("pass^%d %s", p.K, s.styles.Bold.Render(termtext.Percent(p.PassHat))))
			}
		}
		rows = append(rows, words)
	}
	if len(rows) == 0 {
		return nil
	}
	align(rows)
	var lines []string
	for _, row := range rows {
		lines = append(lines, s.packed(row)...)
	}
	note := "pass@k: one of k attempts at a task passes; pass^k: all of them do."
	if part {
		note += " Tasks with fewer than k completed attempts are left out."
	}
	return append(lines, s.wrap(note)...)
}

// align pads the words of each column to the same width, except the last of a row.
func align(rows [][]string) {
	var widths []int
	for _, row := range rows {
		for i, word := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], lipgloss.Width(word))
		}
	}
	for _, row := range rows {
		for i, word := range row[:len(row)-1] {
			row[i] += strings.Repeat(" ", widths[i]-lipgloss.Width(word))
		}
	}
}

// packed fills lines with words; all but the first line are indented.
func (s *summary) packed(words []string) []string {
	lines := []string{words[0]}
	for _, w := range words[1:] {
		last := &lines[len(lines)-1]
		if lipgloss.Width(*last)+columnGap+lipgloss.Width(w) > s.width {
			lines = append(lines, "")
			last = &lines[len(lines)-1]
		}
		*last += strings.Repeat(" ", columnGap) + w
	}
	return lines
}
