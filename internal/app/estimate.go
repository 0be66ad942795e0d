package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/trial"
)

// Ahead is what a divided job would run, and what that is expected to cost.
type Ahead struct {
	Estimate     // Wall is of the longest shard
	Shards   int // that would run
	Tasks    []string
	Affected string   // a sentence about what the change can affect; "" without --changed
	Besides  []string // sentences about trials that are counted otherwise than as those of one job
	Baseline string   // a sentence about the results that the estimate is made from, or about why there are none
}

// lookAhead returns what the n shards of p would run, by the results of the baseline.
func lookAhead(ctx context.Context, p *stages.Planned, req DivideRequest, n int, timings job.Timings) (*Ahead, error) {
	from := reporting.ReportOptions{Baseline: req.Baseline, Stored: req.Stored}
	a := &Ahead{Shards: n}
	if p.Affected != nil {
		a.Affected = p.Affected.Sentence()
	}
	d := DryRun{Concurrent: p.Job.NConcurrentTrials}
	d.Estimate.AtMost = p.MayEndEarly()
	todo, err := a.trials(ctx, p, req, from, &d)
	if err != nil {
		return nil, err
	}
	base, sentence, err := baselineAhead(ctx, p, from)
	if err != nil {
		return nil, err
	}
	a.Baseline = sentence
	var earlier earlierJobs
	if base != nil {
		earlier = earlierJobs{jobs: 1, results: base.Results}
	}
	d.estimate(todo, earlier)
	a.Estimate = d.Estimate
	a.Wall = nil
	if each, known := job.TimingsOf(result.Job{Results: earlier.results}).Expect(todo); known && len(todo) > 0 {
		var longest time.Duration
		for _, l := range job.Loads(shardsOf(todo, p.Specs, job.Shards(p.Specs, n, timings)), n, each) {
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

// trials returns the trials that the run would make: those of both sides if the baseline runs, too,
// without those that it takes over. It adds a sentence to Besides for each such difference.
func (a *Ahead) trials(ctx context.Context, p *stages.Planned, req DivideRequest, from reporting.ReportOptions, d *DryRun) ([]trial.Spec, error) {
	todo := p.Specs
	dirs, fromBaseline := stages.SplitReuse(req.Reuse)
	if len(dirs) > 0 {
		d.Estimate.AtMost = true
		a.Besides = append(a.Besides, "Trials that are the same in the directories of reuse are not taken off")
	}
	both := req.Against != "" || req.ConfirmAgainst != ""
	switch {
	case req.Against != "":
		todo = slices.Concat(todo, todo)
		d.Estimate.AtMost = true
		a.Besides = append(a.Besides, fmt.Sprintf("Half of the trials are those of the baseline, %s (against): agents that are the same there run once",
			untrusted.Cut(untrusted.Line(req.Against), longName)))
	case fromBaseline && !both:
		p.Orders = stages.Orders{Report: from}
		sources, err := p.FindBaseline(ctx, nil)
		if err != nil {
			return nil, err
		}
		if todo, err = d.reuse(ctx, p, sources, slices.Clone(todo)); err != nil {
			return nil, err
		}
		if d.Reused > 0 {
			a.Besides = append(a.Besides, fmt.Sprintf("Taken from the baseline (reuse: baseline): %d of %s, which are the same there", d.Reused, plural.Count(len(p.Specs), "trial")))
		}
		if d.AskedLater > 0 {
			d.Estimate.AtMost = true
			a.Besides = append(a.Besides, fmt.Sprintf("Perhaps %d more are taken from it: the run asks the provider whether their images are still the same", d.AskedLater))
		}
	}
	if c := p.Job.Gate.Confirm.Attempts; c > 0 && len(todo) > 0 && (from.Compares() || both) {
		sides := ""
		if both {
			sides = ", on both sides"
		}
		a.Besides = append(a.Besides, fmt.Sprintf("Not counted: up to %s at each task that looks broken%s (gate.confirm)", plural.Count(c, "more attempt"), sides))
	}
	return todo, nil
}

// baselineAhead returns the results to estimate from, and a sentence about them.
func baselineAhead(ctx context.Context, p *stages.Planned, from reporting.ReportOptions) (base *result.Job, sentence string, err error) {
	switch {
	case p.Found != nil:
		return p.Found.Job, p.Found.Sentence, p.Found.Err
	case !from.Compares():
		return nil, "none was given (--baseline names one), so cost and time are not known", nil
	}
	plan, err := p.Record(ctx)
	if err != nil {
		return nil, "", err
	}
	return reporting.FinderOf(p.Host).Baseline(ctx, p.Dir(), reporting.EvaluatedIn(plan), from)
}

// shardsOf returns the shard of each trial of todo, of those of all trials.
func shardsOf(todo, all []trial.Spec, shards []int) []int {
	of := map[result.Key]int{}
	for i, s := range all {
		of[s.Key] = shards[i]
	}
	out := make([]int, len(todo))
	for i, s := range todo {
		out[i] = of[s.Key]
	}
	return out
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
	first := "No trial"
	if a.Trials > 0 {
		first = fmt.Sprintf("%s%s of %s in %s: %s", a.Most(), plural.Count(a.Trials, "trial"), plural.Count(len(a.Tasks), "task"), plural.Count(a.Shards, "shard"), strings.Join(tasks, ", "))
	}
	lines := []string{first}
	if a.Affected != "" {
		lines = append(lines, a.Affected)
	}
	lines = append(lines, a.Besides...)
	if a.Trials == 0 {
		return append(lines, "Compared with: "+untrusted.Cut(untrusted.Line(a.Baseline), longSource))
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
