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

// Page is the view of a job. All texts are safe to show.
type Page struct {
	Title, Mark string
	Job         string
	Compared    bool
	Stored      string // where the numbers of the baseline are from; "" if the baseline is at hand
	Turns       bool   // a trial has turns
	Missing     []string
	MissingLead string
	Gate, Basis string
	WaysOut     []string // of an inconclusive verdict
	WaysOutLead string
	ByChance    bool // fixed tasks are no more than chance explains
	PartNote    string
	Facts       []Fact
	Agents      []Agent
	Versus      []report.ComparedPair
	Checks      []Check
	Notes       []string
	Rows        []Row
	Changes     []string // those of Rows, for the filter
	States      []string
	Columns     []string // the agents of Rows, if there are several
	Datasets    []string // those of Rows, if there are several
	Grid        []GridRow
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
	N                         int // of its row in the grid, if there is one
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
		Title: in.Title(cases), Mark: string(in.Mark()), Job: name(in.Job.JobName), Compared: in.Diff != nil || in.Stored != nil && len(in.Stored.Tasks) > 0,
		MissingLead: report.MissingLead, WaysOutLead: report.WaysOutLead(in.Verdict.WaysOut), WaysOut: sentences(in.WaysOut()), ByChance: in.Verdict.FixedByChance, Gate: oneLine(in.Verdict.Reason),
		Versus: in.ComparedPairs(report.MaxPairs), Missing: sentences(in.Incomplete), Notes: sentences(slices.Concat(in.Verdict.Notes, in.Notes)),
	}
	if in.Mark() == report.MarkPart {
		p.PartNote = report.PartNote
	}
	if in.Baseline != "" {
		p.Basis = in.BaselineLead() + oneLine(strings.TrimSuffix(in.Baseline, ".")) + "."
	}
	if in.Diff == nil && p.Compared {
		p.Stored = "from the verdict; the baseline's trials are not here"
		if n := in.Stored.LeftOut; n > 0 {
			p.Stored += ", nor the rows of " + report.Plural(n, "task")
		}
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
	p.addRows(cases, comparedTasks(in), hrefs, d)
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
		attempts[t.Key.Agent] = append(attempts[t.Key.Agent], &t.Attempts)
	}
	compared := comparedAgents(in)
	var out []Agent
	for _, key := range slices.Sorted(maps.Keys(in.Job.Agents)) {
		s := in.Job.Agents[key]
		a := Agent{Name: name(key), Rate: "–", Reward: "–", Trials: report.Count(s.TotalTrials)}
		if s.CompletedTrials > 0 {
			a.Rate, a.Reward = report.Percent(s.PassRate), report.Number(s.MeanReward)
		}
		g, both := compared[key]
		both = both && g.ComparableTasks > 0
		if rate, interval, ok := rateOf(in, attempts[key]); ok {
			a.Rate, a.Interval = report.Percent(rate), report.Percent(interval.Low)+" to "+report.Percent(interval.High)
		}
		if both {
			a.Reward = report.Number(result.LevelOf(scored(attempts[key])).MeanReward) // as that of the baseline
		}
		var m means
		for _, t := range in.Trials {
			if t.Key().Agent == key {
				m.Add(result.OutcomeOf(*t.Unpack()))
			}
		}
		a.Cost, a.Time = m.costText(), m.timeText()
		if both {
			a.BaseRate, a.BaseReward = report.Percent(g.Base.PassRate), report.Number(g.Base.MeanReward)
			if g.ComparableTasks != len(scored(attempts[key])) { // the other columns are of other tasks, too
				of := " (" + report.Plural(g.ComparableTasks, "task") + " of both)"
				a.BaseRate += " → " + report.Percent(g.Head.PassRate) + of
				a.BaseReward += " → " + report.Number(g.Head.MeanReward) + of
			}
		}
		out = append(out, a)
	}
	return out
}

// scored returns the tasks with a score.
func scored(tasks []*result.Attempts) []*result.Attempts {
	return slices.DeleteFunc(slices.Clone(tasks), func(a *result.Attempts) bool { return len(a.Scores()) == 0 })
}

// rateOf returns the pass rate of an agent with its interval: that of the job or, next to a
// baseline, that over all scores, in which a lost attempt counts as not passed.
func rateOf(in report.Input, tasks []*result.Attempts) (rate float64, interval gate.Interval, ok bool) {
	if in.Diff != nil || in.Stored != nil {
		return gate.ScoreRate(tasks, in.Confidence())
	}
	return gate.PassRate(tasks, in.Confidence())
}

// comparedAgents returns the agents of the comparison with the baseline, or of the one that the
// stored verdict has.
func comparedAgents(in report.Input) map[string]result.ComparedAgent {
	c := in.Stored
	if in.Diff != nil {
		c = result.ComparisonOf(in.Diff)
	}
	out := map[string]result.ComparedAgent{}
	if c != nil {
		for _, a := range c.Agents {
			out[a.Agent] = a
		}
	}
	return out
}

// comparedTasks returns the tasks of the comparison that the stored verdict has, without attempts;
// nil if the baseline itself is at hand.
func comparedTasks(in report.Input) map[result.Key]*result.ComparedTask {
	if in.Diff != nil || in.Stored == nil {
		return nil
	}
	out := map[result.Key]*result.ComparedTask{}
	for i, t := range in.Stored.Tasks {
		out[result.Key{Agent: t.Agent, Dataset: t.Dataset, Task: t.Task}] = &in.Stored.Tasks[i]
	}
	return out
}

// means formats the means of trials.
type means struct{ result.Means }

func (m *means) costText() string { return report.Cost(m.Cost()) }

func (m *means) timeText() string { return meanText(m.Seconds, report.Duration) }

func meanText(values []float64, format func(float64) string) string {
	if len(values) == 0 {
		return "–"
	}
	return format(result.Mean(values))
}

// cell returns the cell of a mean. text is the mean of values, base that of the baseline.
func cell(values []float64, text, base string) Cell {
	c := Cell{Text: text, Sort: "-1"}
	if len(values) > 0 {
		c.Sort = strconv.FormatFloat(result.Mean(values), 'g', 6, 64)
	}
	c.before(base)
	return c
}

// before sets the number of the baseline, unless it is unknown or the same.
func (c *Cell) before(base string) {
	if base != "–" && base != c.Text {
		c.Base = base
	}
}

func textOr(v *float64, format func(float64) string) string {
	if v == nil {
		return "–"
	}
	return format(*v)
}

// addRows adds the table of tasks, the most important first.
func (p *Page) addRows(cases []report.Case, stored map[result.Key]*result.ComparedTask, hrefs map[result.Key]string, d detail) {
	sorted := report.Ordered(cases)
	for _, c := range sorted[:min(len(sorted), d.rows)] {
		r := row(*c, stored[result.Key{Agent: c.Agent, Dataset: c.Dataset, Task: c.Task}], hrefs, d.running)
		p.Turns = p.Turns || r.Turns.Text != "–"
		p.Rows = append(p.Rows, r)
		if r.Change != "" && !slices.Contains(p.Changes, r.Change) {
			p.Changes = append(p.Changes, r.Change)
		}
		if !slices.Contains(p.States, r.State) {
			p.States = append(p.States, r.State)
		}
	}
	p.addGrid()
	if more := len(sorted) - len(p.Rows); more > 0 {
		p.LeftOut = append(p.LeftOut, report.Plural(more, "row")+" of the table of tasks, the least important ones")
	}
}

// row returns the row of a case. stored compares it as the stored verdict does; nil if that does
// not count. running is as in detail.
func row(c report.Case, stored *result.ComparedTask, hrefs map[result.Key]string, running *report.Input) Row {
	r := Row{Task: name(c.Task), Dataset: name(c.Dataset), Agent: name(c.Agent), State: string(c.State), Change: string(c.Change()), Expected: c.Expected()}
	if c.Quarantine != nil {
		r.Quarantine = oneLine(c.Quarantine.Reason)
	}
	var head, base means
	passed := 0
	for _, a := range c.Attempts() {
		anchor := Anchor{Href: hrefs[c.Key(a)], Text: strconv.Itoa(a.Number), State: "skipped"}
		if !a.Trial.There() && running != nil {
			anchor.State = pendingState(*running, c.Key(a))
			if c.State == report.Skipped && r.State != stateRuns {
				r.State = anchor.State
			}
		}
		if t := a.Trial.Unpack(); t != nil {
			head.Add(result.OutcomeOf(*t))
			if t.Passed() {
				passed++
			}
			anchor.State = stateOf(*t)
		}
		if len(r.Trials) < maxList {
			r.Trials = append(r.Trials, anchor)
		}
	}
	r.Result = fmt.Sprintf("%d/%d", passed, c.Planned())
	turns := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	if stored != nil {
		r.Change = name(string(stored.Change))
		r.Reward, r.Cost = cell(head.Rewards, meanText(head.Rewards, report.Number), ""), cell(head.Costs, head.costText(), "")
		r.Turns, r.Time = cell(head.Turns, meanText(head.Turns, turns), ""), cell(head.Seconds, head.timeText(), "")
		if b := stored.Base; b != nil && stored.Change != result.Changed {
			r.Result = fmt.Sprintf("%d/%d → %s", b.Passed, b.Attempts, r.Result)
			r.Reward.before(textOr(b.MeanReward, report.Number))
			r.Cost.before(report.Cost(b.Cost()))
			r.Turns.before(textOr(b.MeanTurns, turns))
			r.Time.before(report.MeanDuration(b.MeanDuration))
		}
		return r
	}
	if c.Diff != nil && c.Diff.Base != nil && c.Diff.Change != result.Changed { // those of another task do not compare
		b := c.Diff.Base
		for o := range b.Scored() {
			base.Add(o)
		}
		base.Rewards = b.Scores()
		if c.Diff.Comparable() { // both alike: a lost attempt has reward 0
			head.Rewards = c.Diff.Head.Scores()
		}
		r.Result = fmt.Sprintf("%d/%d → %s", b.Passed, b.Total, r.Result)
	}
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
