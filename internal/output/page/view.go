package page

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// Bounds of texts from outside, in bytes.
const (
	maxName     = 150
	maxSentence = 1000
	maxList     = 50 // sentences of one kind
)

// Page is a job as people see it. All texts are safe to show.
type Page struct {
	Title, Mark string
	Job         string
	Compared    bool
	Turns       bool // a trial has turns
	Missing     []string
	MissingLead string
	Gate, Basis string
	PartNote    string
	Facts       []Fact
	Agents      []Agent
	Checks      []Check
	Notes       []string
	Rows        []Row
	Changes     []string // those of Rows, for the filter
	States      []string
	Charts      []Chart
	Trends      []Trend
	Trials      []Trial
	LeftOut     []string
	Links       []Link
	Up          []Link // to the pages above this one, in a site
	Shards      string // which shards the job was put together of; "": it was not
	Parts       []Link // to their pages
	version     string // as in head
}

// Fact is a number with its name.
type Fact struct{ Name, Value string }

// Link is a link out of the page.
type Link struct{ Text, URL string }

// Agent has the results of one agent.
type Agent struct {
	Name, Rate, Interval, Reward, Cost, Time, Trials string
	BaseRate, BaseReward                             string
}

// Check is one check of the gate.
type Check struct{ Sign, Outcome, Name, Says, Hint string }

// Row is one agent's attempts at one task. The numbers are means of its trials.
type Row struct {
	Task, Dataset, Agent      string
	State, Change             string
	Result                    string // "3/3 → 0/3"
	Reward, Cost, Turns, Time Cell
	Quarantine                string
	Expected                  bool // the agent is nop and did not pass, as it should
	Trials                    []Anchor
}

// Anchor leads to the section or the page of a trial. Href is "" if the trial has none.
type Anchor struct {
	Href, Text, State string
}

// Cell is a mean of trials, and that of the baseline.
type Cell struct {
	Text, Base string // "–" and "" if not known
	Sort       string // a number
}

// build returns the view of a job.
func build(in report.Input, cases []report.Case, d detail) Page {
	p := Page{
		Title: in.Title(cases), Mark: string(in.Mark()), Job: name(in.Job.JobName), Compared: in.Diff != nil,
		MissingLead: report.MissingLead, Gate: oneLine(in.Verdict.Reason),
		Missing: sentences(in.Incomplete), Notes: sentences(slices.Concat(in.Verdict.Notes, in.Notes)),
	}
	if in.Mark() == report.MarkPart {
		p.PartNote = report.PartNote
	}
	if in.Baseline != "" {
		p.Basis = in.BaselineLead() + oneLine(strings.TrimSuffix(in.Baseline, ".")) + "."
	}
	p.Facts = facts(in)
	p.Checks = checks(in.Verdict)
	for i, q := range in.Verdict.Quarantined {
		if i == maxList {
			break
		}
		p.Notes = append(p.Notes, name(q.Dataset+"/"+q.Task)+" is not gated until "+oneLine(q.Until)+": "+oneLine(q.Reason))
	}
	p.Agents = agents(in)
	if d.charts != nil {
		p.Charts = *d.charts
	} else {
		p.Charts = charts(in, cases)
	}
	if d.past {
		p.Trends = trends(in)
	} else if len(in.History) > 0 {
		p.LeftOut = append(p.LeftOut, "earlier runs: rollout history shows them")
	}
	hrefs := p.addTrials(in, cases, d)
	p.addRows(cases, hrefs, d)
	for _, l := range []Link{{"Workflow run", in.Links.Run}, {"All results", in.Links.Artifact}, {"Commit", in.Links.Commit}} {
		if untrusted.URL(l.URL) != "" && !strings.ContainsFunc(l.URL, untrusted.Invisible) {
			p.Links = append(p.Links, l)
		}
	}
	return p
}

// notRun names the number of trials without a result.
const notRun = "Not run"

func facts(in report.Input) []Fact {
	j := in.Job
	facts := []Fact{{"Trials", report.Count(j.TotalTrials)}}
	if j.FailedTrials > 0 {
		facts = append(facts, Fact{"With an error", report.Count(j.FailedTrials)})
	}
	if j.SkippedTrials > 0 {
		facts = append(facts, Fact{notRun, report.Count(j.SkippedTrials)})
	}
	facts = append(facts, Fact{"Cost", report.Cost(j.TotalCost)})
	if judges := j.Costs.Judges; judges.Amount() > 0 {
		facts = append(facts, Fact{"of which judges", report.Cost(judges)})
	}
	facts = append(facts, Fact{"Time", report.Duration(j.TotalDurationSec)})
	if sha := in.Links.Sha; sha != "" {
		if sha = cut(sha, 64); len(sha) == 40 {
			sha = untrusted.Cut(sha, 7+len("…"))
		}
		facts = append(facts, Fact{"Commit", sha})
	}
	return facts
}

func checks(v gate.Verdict) []Check {
	order := map[gate.Outcome]int{gate.Fail: 0, gate.Inconclusive: 1, gate.Pass: 2}
	sorted := slices.Clone(v.Checks)
	slices.SortStableFunc(sorted, func(a, b gate.Check) int { return cmp.Compare(order[a.Outcome], order[b.Outcome]) })
	var out []Check
	for _, c := range sorted[:min(len(sorted), maxList)] {
		what := name(c.Name)
		if c.Agent != "" {
			what += ", agent " + name(c.Agent)
		}
		if c.Dataset != "" {
			what += ", dataset " + name(c.Dataset)
		}
		sign, outcome := "❌", "fail"
		switch {
		case c.Skipped:
			sign, outcome = "➖", "not checked"
		case c.Outcome == gate.Pass:
			sign, outcome = "✅", "pass"
		case c.Outcome == gate.Inconclusive:
			sign, outcome = "🟡", "inconclusive"
		}
		out = append(out, Check{sign, outcome, what, oneLine(c.Message), oneLine(c.Hint)})
	}
	return out
}

// agents returns the results of each agent. The cost and the time are means of its trials.
func agents(in report.Input) []Agent {
	attempts := map[string][]*result.Attempts{}
	for _, t := range result.AttemptsOf(in.Job) {
		if len(t.Scores) > 0 {
			attempts[t.Key.Agent] = append(attempts[t.Key.Agent], &t.Attempts)
		}
	}
	var out []Agent
	for _, key := range slices.Sorted(maps.Keys(in.Job.Agents)) {
		s := in.Job.Agents[key]
		a := Agent{Name: name(key), Rate: "–", Reward: "–", Trials: report.Count(s.TotalTrials)}
		if s.CompletedTrials > 0 {
			a.Rate, a.Reward = report.Percent(s.PassRate), report.Number(s.MeanReward)
		}
		if rate, interval, ok := gate.PassRate(attempts[key], confidence(in)); ok {
			a.Rate, a.Interval = report.Percent(rate), report.Percent(interval.Low)+" to "+report.Percent(interval.High)
			a.Reward = report.Number(result.LevelOf(attempts[key]).MeanReward) // of the same attempts
		}
		var m means
		for _, t := range in.Trials {
			if t.Agent == key {
				m.Add(result.OutcomeOf(t))
			}
		}
		a.Cost, a.Time = m.costText(), m.timeText()
		if in.Diff != nil {
			for _, g := range in.Diff.Agents {
				if g.Agent == key && g.Tasks > 0 {
					a.BaseRate, a.BaseReward = report.Percent(g.Base.PassRate), report.Number(g.Base.MeanReward)
					if g.Tasks != len(attempts[key]) { // the other columns are of other tasks, too
						both := " (" + report.Plural(g.Tasks, "task") + " of both)"
						a.BaseRate += " → " + report.Percent(g.Head.PassRate) + both
						a.BaseReward += " → " + report.Number(g.Head.MeanReward) + both
					}
				}
			}
		}
		out = append(out, a)
	}
	return out
}

// confidence returns that of the gate.
func confidence(in report.Input) float64 {
	if c := in.Policy.Confidence; c > 0 && c < 1 {
		return c
	}
	return 0.95
}

// means are those of trials, as texts.
type means struct{ result.Means }

func (m *means) costText() string { return report.Cost(m.Cost()) }

func (m *means) timeText() string { return meanText(m.Seconds, report.Duration) }

func meanText(values []float64, format func(float64) string) string {
	if len(values) == 0 {
		return "–"
	}
	return format(result.Mean(values))
}

// cell compares means. text is of values, base of those of the baseline, which may be nil.
func cell(values []float64, text, base string) Cell {
	c := Cell{Text: text, Sort: "-1"}
	if len(values) > 0 {
		c.Sort = strconv.FormatFloat(result.Mean(values), 'g', 6, 64)
	}
	if base != "–" && base != text {
		c.Base = base
	}
	return c
}

// addRows adds the table of tasks, the most important first.
func (p *Page) addRows(cases []report.Case, hrefs map[result.Key]string, d detail) {
	sorted := report.Problems(cases)
	seen := map[[3]string]bool{}
	for _, c := range sorted {
		seen[[3]string{c.Agent, c.Dataset, c.Task}] = true
	}
	for _, c := range cases {
		if !seen[[3]string{c.Agent, c.Dataset, c.Task}] {
			sorted = append(sorted, c)
		}
	}
	for _, c := range sorted[:min(len(sorted), d.rows)] {
		r := row(c, hrefs, d.running)
		p.Turns = p.Turns || r.Turns.Text != "–"
		p.Rows = append(p.Rows, r)
		if r.Change != "" && !slices.Contains(p.Changes, r.Change) {
			p.Changes = append(p.Changes, r.Change)
		}
		if !slices.Contains(p.States, r.State) {
			p.States = append(p.States, r.State)
		}
	}
	if more := len(sorted) - len(p.Rows); more > 0 {
		p.LeftOut = append(p.LeftOut, report.Plural(more, "row")+" of the table of tasks, the least important ones")
	}
}

// row returns the row of a case. running is as in detail.
func row(c report.Case, hrefs map[result.Key]string, running *report.Input) Row {
	r := Row{Task: name(c.Task), Dataset: name(c.Dataset), Agent: name(c.Agent), State: string(c.State), Change: string(c.Change()), Expected: c.Expected()}
	if c.Quarantine != nil {
		r.Quarantine = oneLine(c.Quarantine.Reason)
	}
	var head, base means
	passed := 0
	for _, a := range c.Attempts {
		anchor := Anchor{Href: hrefs[a.Key], Text: strconv.Itoa(a.Key.Attempt), State: "skipped"}
		if a.Trial == nil && running != nil {
			anchor.State = pendingState(*running, a.Key)
			if c.State == report.Skipped && r.State != stateRuns {
				r.State = anchor.State
			}
		}
		if a.Trial != nil {
			head.Add(result.OutcomeOf(*a.Trial))
			if a.Trial.Passed() {
				passed++
			}
			anchor.State = stateOf(*a.Trial)
		}
		if len(r.Trials) < maxList {
			r.Trials = append(r.Trials, anchor)
		}
	}
	r.Result = fmt.Sprintf("%d/%d", passed, len(c.Attempts))
	if c.Diff != nil && c.Diff.Base != nil && c.Diff.Change != result.Changed { // those of another task do not compare
		b := c.Diff.Base
		for _, o := range b.Scored {
			base.Add(*o)
		}
		base.Rewards = b.Scores
		r.Result = fmt.Sprintf("%d/%d → %s", b.Passed, b.Total, r.Result)
	}
	turns := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	r.Reward = cell(head.Rewards, meanText(head.Rewards, report.Number), meanText(base.Rewards, report.Number))
	r.Cost = cell(head.Costs, head.costText(), base.costText())
	r.Turns = cell(head.Turns, meanText(head.Turns, turns), meanText(base.Turns, turns))
	r.Time = cell(head.Seconds, head.timeText(), base.timeText())
	return r
}

// stateOf returns how a trial ended, in one word of a fixed set.
func stateOf(t result.Trial) string {
	switch {
	case t.Passed():
		return "passed"
	case t.Completed():
		return "failed"
	case t.Failed():
		return "errored"
	}
	return "unverified"
}

// name returns a name from outside.
func name(s string) string { return cut(s, maxName) }

func cut(s string, size int) string { return untrusted.Cut(untrusted.Line(s), size) }

// sentences returns sentences from outside.
func sentences(all []string) []string {
	var out []string
	for i, s := range all {
		if i == maxList {
			return append(out, "… and "+report.Count(len(all)-i)+" more")
		}
		out = append(out, oneLine(s))
	}
	return out
}
