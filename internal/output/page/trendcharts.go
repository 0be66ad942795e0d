package page

import (
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/history"
	"github.com/org/rollout-action/internal/core/report"
)

// level is the value of a number of an agent in a run.
type level struct {
	value    float64
	known    bool
	atLeast  bool // value is a lower bound
	interval *gate.Interval
}

func passRateOf(a history.Agent) level {
	return level{value: part(a.PassRate), known: a.Attempts > 0, interval: a.Interval}
}

func rewardOf(a history.Agent) level {
	return level{value: a.MeanReward, known: a.Attempts > 0 && finite(a.MeanReward), interval: a.RewardInterval}
}

func costOf(a history.Agent) level {
	l := meanOf(a.Cost)
	l.atLeast = a.CostAtLeast
	return l
}

func timeOf(a history.Agent) level { return meanOf(a.DurationSec) }

// tokensOfRun returns the tokens of both kinds. Lines of earlier versions have only the two means,
// which can be added if they are of as many trials.
func tokensOfRun(a history.Agent) level {
	if in, out := a.InputTokens, a.OutputTokens; a.Tokens.N == 0 && in.N == out.N {
		return meanOf(history.Mean{Mean: in.Mean + out.Mean, N: in.N})
	}
	return meanOf(a.Tokens)
}

func meanOf(m history.Mean) level {
	return level{value: m.Mean, known: m.N > 0 && finite(m.Mean), interval: m.Interval}
}

// shown returns the number with its interval as texts.
func (l level) shown(format func(float64) string) TrendMean {
	if !l.known {
		return TrendMean{Text: "–"}
	}
	m := TrendMean{Text: format(l.value)}
	if l.atLeast {
		m.Text = "≥ " + m.Text
	}
	if i := l.interval; i != nil {
		m.Interval = format(i.Low) + " to " + format(i.High)
	}
	return m
}

// measured describes a number that is drawn over runs. Its axis ends at most, or at the highest
// value if that is higher.
type measured struct {
	title  string
	of     func(history.Agent) level
	format func(float64) string
	most   float64
}

var overRuns = []measured{
	{"Pass rate over runs", passRateOf, report.Percent, 1},
	{"Mean reward over runs", rewardOf, report.Number, 1},
	{"Cost per trial over runs", costOf, report.Dollars, 0},
	{"Time per trial over runs", timeOf, report.Duration, 0},
	{"Tokens per trial over runs", tokensOfRun, report.Tokens, 0},
}

// trendCharts draws each number that is known of a run, with its interval, and marks where runs
// before are not comparable. The first one has the key, and explains the marks.
func trendCharts(runs []history.Run) (out []Chart) {
	for _, m := range overRuns {
		if c := m.chart(runs); len(c.Dots) > 0 {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		return nil
	}
	marks := 0
	for _, run := range runs[1:] {
		if run.Changed != (history.Changed{}) {
			marks++
		}
	}
	if marks > 0 {
		out[0].Says += "; " + report.Plural(marks, "change") + " of model, tasks or judges, before and after which runs are not comparable"
	}
	out[0].Keys = []Key{{"pass", "gate: pass"}, {"inconclusive", "inconclusive"}, {"fail", "fail"}, {"unknown", "no verdict"}}
	return out
}

// ends returns the ends of the axis, which includes all intervals.
func (m measured) ends(runs []history.Run) (low, high float64) {
	high = m.most
	for _, run := range runs {
		l := m.of(run.Agent)
		if !l.known {
			continue
		}
		low, high = min(low, l.value), max(high, l.value)
		if i := l.interval; i != nil && finite(i.Low) && finite(i.High) {
			low, high = min(low, i.Low), max(high, i.High)
		}
	}
	if !(high > low) || !finite(high-low) {
		high = low + 1
	}
	return low, high
}

// runAt returns the x coordinate of a run.
func runAt(i, runs int) int { return left + 8 + (wide-16)*i/max(runs-1, 1) }

func (m measured) chart(runs []history.Run) Chart {
	c := Chart{Title: m.title, Width: chartWidth, Height: chartHeight}
	first, last := m.ends(runs)
	c.axes(m.format(first), m.format(last), runs[0].StartedAt.UTC().Format("2006-01-02"), runs[len(runs)-1].StartedAt.UTC().Format("2006-01-02"))
	at := func(v float64) int { return top + tall - int(tall*part((v-first)/(last-first))) }
	c.marks(runs)
	var values []float64
	without := 0
	for i, run := range runs {
		l := m.of(run.Agent)
		if !l.known {
			continue
		}
		values = append(values, l.value)
		x, text := runAt(i, len(runs)), l.shown(m.format)
		tip := run.StartedAt.UTC().Format("2006-01-02 15:04") + ": " + text.Text
		if b := l.interval; b != nil {
			tip += " (" + text.Interval + ")"
			c.Lines = append(c.Lines, Line{x, at(b.High), x, at(b.Low), "thin"})
		} else {
			without++
		}
		if run.Verdict != "" {
			tip += ", gate: " + name(string(run.Verdict))
		}
		c.Dots = append(c.Dots, Dot{x, at(l.value), verdictClass(run), tip})
	}
	if len(values) == 0 {
		return c
	}
	c.Says = m.says(values, len(runs), without)
	return c
}

// says describes the values of runs; without is the number of those that have no interval.
func (m measured) says(values []float64, runs, without int) string {
	low, high := values[0], values[0]
	for _, v := range values {
		low, high = min(low, v), max(high, v)
	}
	says := report.Plural(len(values), "run") + ", " + m.format(low) + " to " + m.format(high)
	if unknown := runs - len(values); unknown > 0 {
		says += "; not known of " + report.Plural(unknown, "run")
	}
	switch without {
	case 0:
		says += ", with 95% intervals"
	case len(values):
		says += "; without intervals"
	default:
		says += "; " + report.Count(without) + " of them without an interval"
	}
	return says
}

// marks draws a line where runs before are not comparable.
func (c *Chart) marks(runs []history.Run) {
	marks := 0
	for i, run := range runs {
		changed := run.Changed.String()
		if i == 0 || changed == "" {
			continue
		}
		middle := (runAt(i-1, len(runs)) + runAt(i, len(runs))) / 2
		c.Lines = append(c.Lines, Line{middle, top, middle, top + tall, "mark"})
		anchor := "start"
		if middle > left+wide/2 {
			anchor = "end"
		}
		c.Texts = append(c.Texts, Text{middle, top + tall - 6 - 15*(marks%3), anchor, changed})
		marks++
	}
}
