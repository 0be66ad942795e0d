package page

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
)

const (
	workerBins = 74
	otherPhase = len(phaseNames) // the time of a trial in no phase
)

// phaseTimes holds the trials' time in each phase, over the time of a job.
type phaseTimes struct {
	from  time.Time
	total float64                             // seconds of the job
	bins  [otherPhase + 1][workerBins]float64 // trials in a phase, as a mean over the bin
	sums  [otherPhase + 1]float64             // seconds
}

// workers draws how many trials were in which phase at a time.
func workers(trials []result.Packed) Chart {
	p := phaseTimes{}
	var to time.Time
	var kept []result.Timestamps
	for _, packed := range trials {
		t := packed.Unpack()
		s := t.Timestamps
		if t.Reused != nil || s.StartedAt.IsZero() || !s.EndedAt.After(s.StartedAt) {
			continue
		}
		if p.from.IsZero() || s.StartedAt.Before(p.from) {
			p.from = s.StartedAt
		}
		if s.EndedAt.After(to) {
			to = s.EndedAt
		}
		kept = append(kept, s)
	}
	p.total = to.Sub(p.from).Seconds()
	if len(kept) < 2 || p.total <= 0 || !slices.ContainsFunc(kept, func(t result.Timestamps) bool { return len(spans(t)) > 0 }) {
		return Chart{}
	}
	for _, t := range kept {
		p.addTrial(t)
	}
	return p.chart()
}

// addTrial adds a trial's phases, and the rest of its time as otherPhase.
func (p *phaseTimes) addTrial(t result.Timestamps) {
	p.add(otherPhase, t.StartedAt, t.EndedAt, 1)
	for _, s := range spans(t) {
		from, to := s.from, s.to // a file may say anything, but not more than the trial
		if from.Before(t.StartedAt) {
			from = t.StartedAt
		}
		if to.After(t.EndedAt) {
			to = t.EndedAt
		}
		p.add(s.phase, from, to, 1)
		p.add(otherPhase, from, to, -1)
	}
}

// add adds the time from a to b to a phase, sign times.
func (p *phaseTimes) add(phase int, a, b time.Time, sign float64) {
	first, last := workerBins*a.Sub(p.from).Seconds()/p.total, workerBins*b.Sub(p.from).Seconds()/p.total
	first, last = max(first, 0), min(last, workerBins)
	if !(first < last) {
		return
	}
	p.sums[phase] += sign * (last - first) / workerBins * p.total
	for i := int(first); i < workerBins && float64(i) < last; i++ {
		p.bins[phase][i] += sign * (min(last, float64(i+1)) - max(first, float64(i)))
	}
}

// most returns the largest number of trials at a time.
func (p *phaseTimes) most() float64 {
	most := 0.0
	for i := range workerBins {
		sum := 0.0
		for phase := range p.bins {
			sum += max(p.bins[phase][i], 0)
		}
		most = max(most, sum)
	}
	return most
}

func (p *phaseTimes) chart() Chart {
	most := p.most()
	c := Chart{Title: "Workers over time", Width: chartWidth, Height: chartHeight, Bars: p.bars(most)}
	c.axes("0", strconv.FormatFloat(most, 'f', -1, 64), "0s", report.Duration(p.total))
	if most != math.Trunc(most) {
		c.Texts[1].Text = strconv.FormatFloat(most, 'f', 1, 64)
	}
	var says []string
	for phase, sum := range p.sums {
		if sum < p.total/1000 {
			continue
		}
		label := "other"
		if phase < otherPhase {
			label = strings.ToLower(phaseNames[phase])
		}
		label += " " + report.Duration(sum)
		says = append(says, label)
		c.Keys = append(c.Keys, Key{"phase" + strconv.Itoa(phase), label})
	}
	c.Says = strings.Join(says, ", ")
	return c
}

// bars returns a bar for each phase in each bin, one above the other. A bar that continues the one
// before it makes that one wider.
func (p *phaseTimes) bars(most float64) []Bar {
	const width = wide / workerBins
	var bars []Bar
	var last [len(p.bins)]int // 1 + the index of a phase's last bar
	at := func(v float64) int { return top + tall - int(tall*v/most) }
	for i := range workerBins {
		below, x := 0.0, left+i*width
		for phase := range p.bins {
			v := max(p.bins[phase][i], 0)
			y, h := at(below+v), at(below)-at(below+v)
			if n := last[phase]; n > 0 && bars[n-1].X+bars[n-1].W == x && bars[n-1].Y == y && bars[n-1].H == h {
				bars[n-1].W += width
			} else if h > 0 {
				bars = append(bars, Bar{x, y, width, h, "phase" + strconv.Itoa(phase), ""})
				last[phase] = len(bars)
			}
			below += v
		}
	}
	return bars
}
