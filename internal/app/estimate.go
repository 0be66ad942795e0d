package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/run/job"
)

// Ahead is what a divided job would run, and what that is expected to cost.
type Ahead struct {
	Estimate     // Wall is of the longest shard
	Shards   int // that would run
	Tasks    []string
	Affected string // a sentence about what the change can affect; "" without --changed
	Baseline string // a sentence about the results that the estimate is made from, or about why there are none
}

// lookAhead returns what the n shards of p would run, by the results of the baseline.
func lookAhead(ctx context.Context, p *stages.Planned, req DivideRequest, n int, timings job.Timings) (*Ahead, error) {
	plan, err := p.Record(ctx)
	if err != nil {
		return nil, err
	}
	from := reporting.ReportOptions{Baseline: req.Baseline, Stored: req.Stored}
	base, sentence, err := reporting.FinderOf(p.Host).Baseline(ctx, p.Dir(), reporting.EvaluatedIn(plan), from)
	if err != nil {
		return nil, err
	}
	if !from.Compares() {
		sentence = "none was given (--baseline names one), so cost and time are not known"
	}
	a := &Ahead{Shards: n, Baseline: sentence}
	if p.Affected != nil {
		a.Affected = p.Affected.Sentence()
	}
	var earlier earlierJobs
	if base != nil {
		earlier = earlierJobs{jobs: 1, results: base.Results}
	}
	d := DryRun{Concurrent: p.Job.NConcurrentTrials}
	d.Estimate.AtMost = p.MayEndEarly()
	d.estimate(p.Specs, earlier)
	a.Estimate = d.Estimate
	a.Wall = nil
	if each, known := job.TimingsOf(result.Job{Results: earlier.results}).Expect(p.Specs); known {
		var longest time.Duration
		for _, l := range job.Loads(job.Shards(p.Specs, n, timings), n, each) {
			longest = max(longest, l.Wall(d.Concurrent))
		}
		a.Wall = &longest
	}
	named := map[string]bool{}
	for _, t := range d.Trials {
		if !named[t.Task] {
			named[t.Task] = true
			a.Tasks = append(a.Tasks, t.Task)
		}
	}
	return a, nil
}

// Most returns "at most " if the job may end early, and else "".
func (e Estimate) Most() string { return Most(e.AtMost) }

// Most returns "at most " before a number that may turn out to be smaller, and else "".
func Most(atMost bool) string {
	if atMost {
		return "at most "
	}
	return ""
}

// CostText says what the trials may cost, and how much of that is known.
func (e Estimate) CostText() string {
	text := fmt.Sprintf("%sabout %s, by what %s cost before", e.Most(), report.Dollars(*e.Cost), plural.Count(e.Costed, "trial"))
	if e.Costed == 0 {
		text = fmt.Sprintf("%sabout %s", e.Most(), report.Dollars(*e.Cost))
	}
	if e.CostByAgent > 0 {
		text += fmt.Sprintf("; %s counted as the mean of the agent", plural.Count(e.CostByAgent, "trial"))
	}
	if e.CostsUnknown > 0 {
		text += fmt.Sprintf("; without %s that nothing is known about", plural.Count(e.CostsUnknown, "trial"))
	}
	return text
}

// The parts of an estimate in a comment, which must fit into the room for the announcement.
const (
	namedTasks = 5
	longName   = 40
	longSource = 200
)

// Lines returns the sentences about the trials that would run and their expected cost. show formats
// the name of a task.
func (a *Ahead) Lines(show func(string) string) []string {
	var tasks []string
	for i, name := range a.Tasks {
		if i == namedTasks {
			tasks = append(tasks, fmt.Sprintf("%d more", len(a.Tasks)-i))
			break
		}
		tasks = append(tasks, show(untrusted.Cut(untrusted.Line(name), longName)))
	}
	lines := []string{fmt.Sprintf("%s%s of %s in %s: %s", a.Most(), plural.Count(a.Trials, "trial"), plural.Count(len(a.Tasks), "task"), plural.Count(a.Shards, "shard"), strings.Join(tasks, ", "))}
	if a.Affected != "" {
		lines = append(lines, a.Affected)
	}
	cost, wall := "not known", "not known"
	if a.Cost != nil {
		cost = a.CostText()
	}
	if a.Wall != nil {
		wall = a.Most() + "about " + Brief(*a.Wall)
		if a.Shards > 1 {
			wall += " for the longest shard"
		}
	}
	return append(lines, "Cost: "+cost, "Time: "+wall, "Estimated from the baseline: "+untrusted.Cut(untrusted.Line(a.Baseline), longSource))
}

// markdown returns the estimate for a comment.
func (a *Ahead) markdown() string {
	var b strings.Builder
	b.WriteString("**This would run:**\n")
	for i, line := range a.Lines(untrusted.Code) {
		if i > 0 { // names are code already
			line = untrusted.Markdown(line)
		}
		b.WriteString("\n- " + line)
	}
	return b.String()
}
