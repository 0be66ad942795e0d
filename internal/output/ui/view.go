package ui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/lipgloss"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/output/termtext"
)

// view draws the state for a terminal of a given size, without changing it. Most lines are short
// and grow at their end, so a terminal that gets narrower has little to wrap:
//
//	━━━━━━━━━━━━━━━━━━━━━──────────────  12/20  3m12s  ~2m left
//	pass rate 83.3% · 10 passed · 2 not passed · 0 failed · mean 0.87
//
//	   12s  environment  cpe/terminal-bench/hello-world__1
//	        └ #7 [3/5] RUN apt-get install -y git
//	    3s  agent        cpe/terminal-bench/write-compressor__1  step 2/3 build
//	+3 more
type view struct {
	state      *state
	styles     termtext.Styles
	opts       Options
	now        time.Time
	cols, rows int
}

const (
	ageWidth = 6 // 59m59s
	minBar   = 10
	maxBar   = 40
	minName  = 12
)

// Age returns how long ago something began. All ages change together, once a second, in one frame.
func (v view) age(since time.Time) string {
	return termtext.Age(v.now.Truncate(time.Second).Sub(since.Truncate(time.Second)))
}

func (v view) width() int { return v.cols - 1 }

// height returns the maximum number of lines of the frame: two thirds of the terminal, so that the
// output above stays visible.
func (v view) height() int { return min(max(6, v.rows*2/3), max(v.rows-1, 2)) }

func (v view) lines() []string {
	if v.state.total == 0 {
		return nil
	}
	head := append([]string{v.bar()}, v.counts()...)
	roomy := v.height() >= 10
	if roomy {
		head = append([]string{""}, head...)
		head = append(head, "")
	}
	lines := slices.Concat(head, v.list(v.height()-len(head)))
	// A higher frame could not be redrawn: the cursor cannot move above the screen.
	return lines[:min(len(lines), max(v.rows-1, 0))]
}

// bar returns the progress bar; its parts have the colours of the outcomes. The text after it has a
// fixed width, so the bar does not move when numbers change.
func (v view) bar() string {
	s := v.state
	total := fmt.Sprint(s.total)
	text := fmt.Sprintf("%*d/%s  %-*s", len(total), s.ended, total, ageWidth, v.age(s.started))
	if v.width()-len(text)-len("   ~2h10m left") >= minBar {
		left := ""
		if d, ok := s.left(v.opts.Concurrency, v.now); ok {
			left = "~" + termtext.Roughly(d) + " left"
		}
		text += fmt.Sprintf("  %-11s", left)
	}
	width := min(v.width()-len(text)-3, maxBar)
	if width < minBar {
		return " " + text
	}
	counted := s.tally.Summary(nil)
	parts := []struct {
		upTo  int
		style lipgloss.Style
	}{
		{s.passed, v.styles.Good},
		{counted.CompletedTrials, v.styles.Warn},
		{counted.CompletedTrials + counted.FailedTrials, v.styles.Bad},
		{s.ended, v.styles.Dim},
	}
	var b strings.Builder
	drawn := 0
	for _, part := range parts {
		if cells := width * part.upTo / max(s.total, s.ended); cells > drawn {
			b.WriteString(part.style.Render(strings.Repeat("━", cells-drawn)))
			drawn = cells
		}
	}
	b.WriteString(v.styles.Dim.Render(strings.Repeat("─", width-drawn)))
	return " " + b.String() + "  " + text
}

// counts returns the pass rate, the number of trials by outcome, and the metrics so far, on at most
// two lines. Rates and metrics are over completed trials of the agents that are evaluated.
func (v view) counts() []string {
	s := v.state
	if s.cancelling {
		return []string{" " + v.styles.Warn.Render("Cancelling: "+plural.Count(len(s.running), "trial")+" left to stop")}
	}
	counted, rated := s.tally.Summary(nil), s.evaluated().Summary(v.opts.Metrics)
	rate := "–"
	if rated.CompletedTrials > 0 {
		rate = termtext.Percent(rated.PassRate)
	}
	parts := []string{
		"pass rate " + v.styles.Bold.Render(rate),
		v.count(s.passed, "passed", v.styles.Good),
		v.count(counted.CompletedTrials-s.passed, "not passed", v.styles.Warn),
		v.count(counted.FailedTrials, "failed", v.styles.Bad),
	}
	for _, m := range rated.Metrics {
		parts = append(parts, metric(m))
	}
	return v.pack(parts, 2)
}

func (v view) count(n int, what string, style lipgloss.Style) string {
	text := fmt.Sprintf("%d %s", n, what)
	if n == 0 {
		return v.styles.Dim.Render(text)
	}
	return style.Render(text)
}

func metric(m result.Metric) string {
	value := "–"
	if m.Value != nil {
		value = termtext.Number(*m.Value)
	}
	return m.Type + " " + value
}

// pack joins parts into at most the given number of lines, and leaves out what does not fit.
func (v view) pack(parts []string, lines int) []string {
	separator := v.styles.Dim.Render(" · ")
	packed := []string{" " + parts[0]}
	for _, part := range parts[1:] {
		last := &packed[len(packed)-1]
		if lipgloss.Width(*last)+lipgloss.Width(part)+3 <= v.width() {
			*last += separator + part
		} else if len(packed) < lines {
			packed = append(packed, " "+part)
		}
	}
	return packed
}

// list returns the running trials, oldest first, in at most space lines: the slowest are at the
// top, and lines only move when a trial ends. If there is space, the trial whose image is being
// prepared has a line about that.
func (v view) list(space int) []string {
	running := v.state.running
	making := v.state.making()
	if v.state.cancelling || space < 4 || making >= space-2 {
		making = -1
	}
	if making >= 0 {
		space--
	}
	shown := len(running)
	if shown > space {
		shown = max(space-1, 0)
	}
	var lines []string
	for i, r := range running[:shown] {
		lines = append(lines, v.row(r))
		if i == making {
			lines = append(lines, v.styles.Dim.Render(strings.Repeat(" ", ageWidth+3)+"└ "+termtext.CutEnd(r.progress, v.width()-ageWidth-5)))
		}
	}
	if more := len(running) - shown; more > 0 {
		lines = append(lines, v.styles.Dim.Render(fmt.Sprintf(" +%d more", more)))
	}
	return lines
}

func (v view) row(r *running) string {
	left := fmt.Sprintf(" %*s  %-*s  ", ageWidth, v.age(r.since), phaseWidth, phaseName(r.phase))
	if v.width()-len(left) < minName {
		left = fmt.Sprintf(" %*s  ", ageWidth, v.age(r.since))
	}
	room, step := v.width()-len(left), ""
	if r.step != nil {
		step = "  " + stepName(r.step)
		if lipgloss.Width(step) > room-minName {
			step = fmt.Sprintf("  %d/%d", r.step.Number, r.step.Of)
		}
		if lipgloss.Width(step) > room-minName {
			step = ""
		}
	}
	name := termtext.CutMiddle(r.name, room-lipgloss.Width(step))
	if step != "" {
		step = v.styles.Dim.Render(step)
	}
	return v.styles.Dim.Render(left) + name + step
}
