package page

import (
	"cmp"
	"math"
	"path"
	"slices"
	"strconv"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
)

// Chart is a picture in a coordinate system of Width by Height.
type Chart struct {
	Title, Says   string // Says is the same in words
	More          string // the rest of it, which the picture has as texts
	Width, Height int
	Bars          []Bar
	Dots          []Dot
	Lines         []Line
	Texts         []Text
	Keys          []Key
}

// Key tells what a colour stands for.
type Key struct{ Class, Text string }

// Bar is a rectangle. Class is of a fixed set.
type Bar struct {
	X, Y, W, H int
	Class, Tip string
}

// Dot is a point of a scatter plot.
type Dot struct {
	X, Y       int
	Class, Tip string
}

// Line is a straight line. Class is of a fixed set.
type Line struct {
	X1, Y1, X2, Y2 int
	Class          string
}

// Text is a label. Anchor is start, middle or end.
type Text struct {
	X, Y   int
	Anchor string
	Text   string
}

const (
	maxBars = 20
	maxDots = 1000
	maxTops = 8 // of the slowest tasks, and of the flakiest
)

// The area of charts with axes.
const (
	left, top, wide, tall = 56, 12, 370, 140
	chartWidth            = 440
	chartHeight           = top + tall + 38
)

// charts returns the pictures that a job has enough numbers for.
func charts(in report.Input, cases []report.Case) []Chart {
	var seconds, dollars []float64
	for _, packed := range in.Trials {
		t := packed.Unpack()
		seconds = append(seconds, result.OutcomeOf(*t).TrialSec())
		if usd, ok := t.Cost.Reported(); ok {
			dollars = append(dollars, usd)
		}
	}
	var out []Chart
	for _, c := range []Chart{
		rates(in), costs(in.Trials), workers(in.Trials), histogram("Durations of trials", seconds, report.Duration),
		histogram("Costs of trials", dollars, report.Dollars), tokens(in), slowest(cases), flakiest(cases),
	} {
		if c.Title != "" {
			out = append(out, c)
		}
	}
	return out
}

// rates draws the pass rate of each agent with its interval.
func rates(in report.Input) Chart {
	attempts := map[string][]*result.Attempts{}
	var names []string
	for _, t := range result.AttemptsOf(in.Job) {
		if attempts[t.Key.Agent] == nil {
			names = append(names, t.Key.Agent)
		}
		attempts[t.Key.Agent] = append(attempts[t.Key.Agent], &t.Attempts)
	}
	slices.Sort(names)
	c := Chart{Width: chartWidth}
	for _, agent := range names[:min(len(names), maxBars)] {
		rate, interval, ok := rateOf(in, attempts[agent])
		if !ok {
			continue
		}
		const left, wide = 130, 250
		y := 10 + 26*len(c.Bars)
		at := func(v float64) int { return left + int(v*wide) }
		says := cut(agent, 24) + " " + report.Percent(rate) + " (" + report.Percent(interval.Low) + " to " + report.Percent(interval.High) + ")"
		c.Bars = append(c.Bars, Bar{left, y, max(at(rate)-left, 1), 14, "rate", says})
		c.interval(at(interval.Low), at(interval.High), y+7)
		c.Texts = append(c.Texts, Text{left - 6, y + 11, "end", cut(agent, 17)}, Text{left + wide + 6, y + 11, "start", report.Percent(rate)})
		if c.Says != "" {
			c.Says += "; "
		}
		c.Says += says
	}
	if len(c.Bars) > 0 {
		c.Title, c.Height = "Pass rate with its "+report.Percent(in.Confidence())+" interval", 20+26*len(c.Bars)
	}
	return c
}

// costs draws each trial's cost and reward.
func costs(trials []result.Packed) Chart {
	c := Chart{Width: chartWidth, Height: chartHeight}
	most, low, high := 0.0, 0.0, 1.0
	var kept []result.Trial
	for _, packed := range trials {
		t := *packed.Unpack()
		usd, ok := t.Cost.Reported()
		if !ok || t.Reward == nil || !finite(usd) || usd < 0 || !finite(*t.Reward) || len(kept) == maxDots {
			continue
		}
		kept = append(kept, t)
		most, low, high = max(most, usd), min(low, *t.Reward), max(high, *t.Reward)
	}
	if len(kept) < 2 || most == 0 || !finite(high-low) {
		return Chart{}
	}
	for _, t := range kept {
		x, y := left+int(wide*t.Cost.Amount()/most), top+tall-int(tall*((*t.Reward-low)/(high-low)))
		c.Dots = append(c.Dots, Dot{x, y, stateOf(t), cut(t.Task, 60) + ": reward " + report.Number(*t.Reward) + ", " + report.Cost(t.Cost)})
	}
	c.Title, c.Says = "Cost against reward", report.Plural(len(kept), "trial")+", at most "+report.Dollars(most)+" each"
	c.axes(report.Number(low), report.Number(high), "$0", report.Dollars(most))
	return c
}

// histogram draws how many trials have which values.
func histogram(title string, all []float64, format func(float64) string) Chart {
	var values []float64
	for _, v := range all {
		if finite(v) && v > 0 {
			values = append(values, v)
		}
	}
	if len(values) < 2 {
		return Chart{}
	}
	const bins = 20
	highest := slices.Max(values)
	var counts [bins]int
	for _, v := range values {
		counts[min(int(v/highest*bins), bins-1)]++
	}
	most := slices.Max(counts[:])
	slices.Sort(values)
	c := Chart{
		Title: title, Width: chartWidth, Height: chartHeight,
		Says: "median " + format(values[len(values)/2]) + ", most " + format(highest),
	}
	for i, n := range counts {
		if n == 0 {
			continue
		}
		h := max(tall*n/most, 1)
		tip := report.Plural(n, "trial") + " of " + format(highest*float64(i)/bins) + " to " + format(highest*float64(i+1)/bins)
		c.Bars = append(c.Bars, Bar{left + i*wide/bins, top + tall - h, wide/bins - 2, h, "rate", tip})
	}
	c.axes("0", report.Count(most), "0", format(highest))
	return c
}

// Bounds of the trajectories behind a chart.
const (
	maxRecords = 40       // trajectories that are read
	maxCharted = 12 << 20 // bytes of all
	maxPoints  = 200      // turns
)

// tokens draws the mean tokens of each turn of the agents, over trials whose conversation was
// recorded.
func tokens(in report.Input) Chart {
	var turns []tokensOf
	records, read, room := 0, 0, int64(maxCharted)
	for _, t := range in.Trials {
		if read == maxRecords {
			break
		}
		record, err := trajectoryWithin(in, path.Join(t.Key().Dir(), result.ATIFFile), &room)
		if err != nil {
			continue
		}
		read++
		n := 0
		for _, s := range record.Steps {
			if s.Metrics == nil || s.Metrics.Prompt == nil || s.Metrics.Completion == nil || n == maxPoints {
				continue
			}
			if n == len(turns) {
				turns = append(turns, tokensOf{})
			}
			turns[n].add(float64(max(*s.Metrics.Prompt, 0)), float64(max(*s.Metrics.Completion, 0)))
			n++
		}
		if n > 0 {
			records++
		}
	}
	if len(turns) < 2 {
		return Chart{}
	}
	most := 1.0
	for _, t := range turns {
		most = max(most, t.input/t.n, t.output/t.n)
	}
	first, last := turns[0], turns[len(turns)-1]
	c := Chart{
		Title: "Tokens by turn", Width: chartWidth, Height: chartHeight,
		Says: "means of " + report.Plural(records, "trial") + "; input " + report.Tokens(first.input/first.n) + " in the first turn, " + report.Tokens(last.input/last.n) + " in turn " + report.Count(len(turns)) +
			"; output " + report.Tokens(first.output/first.n) + " and " + report.Tokens(last.output/last.n),
		Keys: []Key{{"phase2", "input"}, {"phase4", "output"}},
	}
	c.axes("0", report.Tokens(most), "turn 1", "turn "+report.Count(len(turns)))
	for i := 1; i < len(turns); i++ {
		x1, x2 := left+wide*(i-1)/(len(turns)-1), left+wide*i/(len(turns)-1)
		at := func(sum, n float64) int { return top + tall - int(tall*sum/n/most) }
		a, b := turns[i-1], turns[i]
		c.Lines = append(c.Lines, Line{x1, at(a.input, a.n), x2, at(b.input, b.n), "line2"}, Line{x1, at(a.output, a.n), x2, at(b.output, b.n), "line4"})
	}
	return c
}

// tokensOf holds sums over n trials.
type tokensOf struct{ input, output, n float64 }

func (t *tokensOf) add(input, output float64) {
	t.input, t.output, t.n = t.input+input, t.output+output, t.n+1
}

// ranked is a task with the number that it is ranked by.
type ranked struct {
	name, text string
	value      float64
	part       float64 // the length of its bar, from 0 to 1
}

// slowest draws the tasks whose trials took longest.
func slowest(cases []report.Case) Chart {
	var all []ranked
	for _, c := range cases {
		var m means
		for _, a := range c.Attempts() {
			if t := a.Trial.Unpack(); t != nil && finite(t.Durations.TotalSec) {
				m.Add(result.OutcomeOf(*t))
			}
		}
		if len(m.Seconds) > 0 {
			all = append(all, ranked{name: taskOf(c, cases), text: m.timeText(), value: result.Mean(m.Seconds)})
		}
	}
	if len(all) < 2 {
		return Chart{}
	}
	return tops("Slowest tasks", "mean time per trial", all, func(most float64, r ranked) float64 { return r.value / most })
}

// flakiest draws the tasks whose attempts disagree most.
func flakiest(cases []report.Case) Chart {
	var all []ranked
	for _, c := range cases {
		passed, n := 0, 0
		for _, a := range c.Attempts() {
			if a.Trial.There() {
				n++
				if a.Trial.Passed() {
					passed++
				}
			}
		}
		if c.State != report.Flaky || n == 0 {
			continue
		}
		rate := float64(passed) / float64(n)
		all = append(all, ranked{name: taskOf(c, cases), text: strconv.Itoa(passed) + "/" + strconv.Itoa(n), value: rate * (1 - rate), part: rate})
	}
	return tops("Flakiest tasks", "passed attempts", all, func(_ float64, r ranked) float64 { return r.part })
}

// taskOf names a case, with the agent if there are several.
func taskOf(c report.Case, cases []report.Case) string {
	if slices.ContainsFunc(cases, func(other report.Case) bool { return other.Agent != c.Agent }) {
		return cut(c.Task, 40) + ", " + cut(c.Agent, 20)
	}
	return cut(c.Task, 60)
}

// tops draws the highest of all values as bars.
func tops(title, what string, all []ranked, part func(most float64, r ranked) float64) Chart {
	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Compare(b.value, a.value) })
	all = all[:min(len(all), maxTops)]
	if len(all) == 0 || all[0].value <= 0 {
		return Chart{}
	}
	c := Chart{Title: title, Width: chartWidth, Height: 4 + 32*len(all), Says: what}
	for i, r := range all {
		y := 32*i + 6
		long := int((chartWidth - 70) * max(0, min(1, part(all[0].value, r))))
		c.Texts = append(c.Texts, Text{0, y + 13, "start", r.name}, Text{chartWidth, y + 27, "end", r.text})
		c.Bars = append(c.Bars, Bar{0, y + 18, max(long, 2), 9, "rate", r.name + ": " + r.text})
		c.More += "; " + r.name + " " + r.text
	}
	return c
}

// axes adds the two axes with the texts at their ends.
func (c *Chart) axes(low, high, first, last string) {
	c.Lines = append(c.Lines, Line{left, top + tall, left + wide, top + tall, ""}, Line{left, top, left, top + tall, ""})
	c.Texts = append(c.Texts, Text{left - 6, top + tall, "end", low}, Text{left - 6, top + 10, "end", high},
		Text{left, top + tall + 18, "start", first}, Text{left + wide, top + tall + 18, "end", last})
}

// interval adds a line with ends.
func (c *Chart) interval(from, to, y int) {
	c.Lines = append(c.Lines, Line{from, y, to, y, ""}, Line{from, y - 5, from, y + 5, ""}, Line{to, y - 5, to, y + 5, ""})
}

func finite(v float64) bool { return !math.IsInf(v, 0) && !math.IsNaN(v) }
