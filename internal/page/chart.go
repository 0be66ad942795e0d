package page

import (
	"math"
	"slices"

	"github.com/org/rollout-action/internal/gate"
	"github.com/org/rollout-action/internal/report"
	"github.com/org/rollout-action/internal/result"
)

// Chart is a picture in a coordinate system of Width by Height.
type Chart struct {
	Title, Says   string // Says is the same in words
	Width, Height int
	Bars          []Bar
	Dots          []Dot
	Lines         []Line
	Texts         []Text
}

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

// Line is a straight line.
type Line struct{ X1, Y1, X2, Y2 int }

// Text is a label. Anchor is start, middle or end.
type Text struct {
	X, Y   int
	Anchor string
	Text   string
}

const (
	maxBars = 20
	maxDots = 1000
)

// charts returns the pictures that a job has enough numbers for.
func charts(in report.Input) []Chart {
	var out []Chart
	for _, c := range []Chart{rates(in), costs(in.Trials), durations(in.Trials)} {
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
	c := Chart{Width: 440}
	for _, agent := range names[:min(len(names), maxBars)] {
		rate, interval, ok := gate.PassRate(attempts[agent], confidence(in))
		if !ok {
			continue
		}
		const left, wide = 130, 250
		y := 10 + 26*len(c.Bars)
		at := func(v float64) int { return left + int(v*wide) }
		says := cut(agent, 24) + " " + report.Percent(rate) + " (" + report.Percent(interval.Low) + " to " + report.Percent(interval.High) + ")"
		c.Bars = append(c.Bars, Bar{left, y, max(at(rate)-left, 1), 14, "rate", says})
		c.Lines = append(c.Lines, Line{at(interval.Low), y + 7, at(interval.High), y + 7},
			Line{at(interval.Low), y + 2, at(interval.Low), y + 12}, Line{at(interval.High), y + 2, at(interval.High), y + 12})
		c.Texts = append(c.Texts, Text{left - 6, y + 11, "end", cut(agent, 20)}, Text{left + wide + 6, y + 11, "start", report.Percent(rate)})
		if c.Says != "" {
			c.Says += "; "
		}
		c.Says += says
	}
	if len(c.Bars) > 0 {
		c.Title, c.Height = "Pass rate with its "+report.Percent(confidence(in))+" interval", 20+26*len(c.Bars)
	}
	return c
}

// costs draws each trial's cost and reward.
func costs(trials []result.Trial) Chart {
	c := Chart{Width: 440, Height: 190}
	most, low, high := 0.0, 0.0, 1.0
	var kept []result.Trial
	for _, t := range trials {
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
	const left, top, wide, tall = 50, 12, 370, 140
	for _, t := range kept {
		x, y := left+int(wide*t.Cost.Amount()/most), top+tall-int(tall*((*t.Reward-low)/(high-low)))
		c.Dots = append(c.Dots, Dot{x, y, stateOf(t), cut(t.Task, 60) + ": reward " + report.Number(*t.Reward) + ", " + report.Cost(t.Cost)})
	}
	c.Title, c.Says = "Cost against reward", report.Plural(len(kept), "trial")+", at most "+report.Dollars(most)+" each"
	c.axes(left, top, wide, tall)
	c.Texts = append(c.Texts,
		Text{left - 6, top + 8, "end", report.Number(high)}, Text{left - 6, top + tall, "end", report.Number(low)},
		Text{left, top + tall + 16, "start", "$0"}, Text{left + wide, top + tall + 16, "end", report.Dollars(most)})
	return c
}

// durations draws how many trials took how long.
func durations(trials []result.Trial) Chart {
	var values []float64
	for _, t := range trials {
		if s := t.Durations.TotalSec; finite(s) && s > 0 {
			values = append(values, s)
		}
	}
	if len(values) < 2 {
		return Chart{}
	}
	const bins, left, top, wide, tall = 20, 50, 12, 370, 140
	longest := slices.Max(values)
	var counts [bins]int
	for _, v := range values {
		counts[min(int(v/longest*bins), bins-1)]++
	}
	most := slices.Max(counts[:])
	slices.Sort(values)
	c := Chart{
		Title: "Durations of trials", Width: 440, Height: 190,
		Says: "median " + report.Duration(values[len(values)/2]) + ", longest " + report.Duration(longest),
	}
	for i, n := range counts {
		if n == 0 {
			continue
		}
		h := max(tall*n/most, 1)
		tip := report.Plural(n, "trial") + " of " + report.Duration(longest*float64(i)/bins) + " to " + report.Duration(longest*float64(i+1)/bins)
		c.Bars = append(c.Bars, Bar{left + i*wide/bins, top + tall - h, wide/bins - 2, h, "rate", tip})
	}
	c.axes(left, top, wide, tall)
	c.Texts = append(c.Texts, Text{left - 6, top + 8, "end", report.Count(most)}, Text{left - 6, top + tall, "end", "0"},
		Text{left, top + tall + 16, "start", "0s"}, Text{left + wide, top + tall + 16, "end", report.Duration(longest)})
	return c
}

func (c *Chart) axes(left, top, wide, tall int) {
	c.Lines = append(c.Lines, Line{left, top + tall, left + wide, top + tall}, Line{left, top, left, top + tall})
}

func finite(v float64) bool { return !math.IsInf(v, 0) && !math.IsNaN(v) }
