package report

import (
	"cmp"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/result"
)

// Mark is a one-word summary of how a job ended.
type Mark string

// The marks. A job passes with MarkPassed, MarkInconclusive, MarkUncompared and MarkAdvised.
const (
	MarkPassed       Mark = "passed"
	MarkFailed       Mark = "failed"
	MarkInconclusive Mark = "inconclusive"
	MarkUncompared   Mark = "uncompared" // a limit compares with a baseline, and there is nothing to compare with
	MarkAdvised      Mark = "advised"    // the gate only advises, and would have failed the job
	MarkIncomplete   Mark = "incomplete" // something is missing, so nothing is certain
	MarkPart         Mark = "part"       // a shard: only the merge is judged
)

// Emoji returns the emoji of the mark.
func (m Mark) Emoji() string {
	return map[Mark]string{MarkPassed: "✅", MarkFailed: "❌", MarkInconclusive: "🟡", MarkUncompared: "⚪", MarkAdvised: "🟠", MarkIncomplete: "⛔", MarkPart: "🧩"}[m]
}

// Mark returns the mark of the job.
func (in Input) Mark() Mark {
	switch {
	case len(in.Incomplete) > 0:
		return MarkIncomplete
	case (in.Plan.Shard != nil || in.Plan.OnlyConfirms()) && in.Verdict.Outcome == "":
		return MarkPart
	case !in.Passed():
		return MarkFailed
	case in.Spared():
		return MarkAdvised
	case in.Verdict.Outcome == gate.Inconclusive:
		return MarkInconclusive
	case in.Verdict.Uncompared:
		return MarkUncompared
	}
	return MarkPassed
}

// Title returns the heading of every report, which tells how the job ended. It contains no text
// from outside.
func (in Input) Title(cases []Case) string {
	mark, words := in.Mark(), ""
	switch mark {
	case MarkPassed:
		words = "Rollout passed"
	case MarkFailed:
		words = "Rollout failed"
	case MarkInconclusive:
		words = "Rollout passed, inconclusive"
	case MarkUncompared:
		words = "Rollout has nothing to compare with yet"
	case MarkAdvised:
		words = "Rollout would fail, but only advises"
	case MarkIncomplete:
		words = "Rollout is incomplete"
	case MarkPart:
		words = "Rollout, shard " + strings.Replace(in.Plan.Shard.String(), "/", " of ", 1)
	}
	return mark.Emoji() + " " + words + ": " + in.Headline(cases)
}

// Sentences that several reports share.
const (
	MissingLead = "Something is missing, so this job does not pass:" // before Input.Incomplete
	PartNote    = "A shard has no verdict: merge all shards to get one."
)

// WaysOutLead returns the words before ways out of an inconclusive verdict. It names as estimates
// what these ways have.
func WaysOutLead(ways []gate.WayOut) string {
	trials, costs, decides := false, false, false
	for _, w := range ways {
		trials, costs = trials || w.Trials > 0, costs || w.CostUSD != nil
		decides = decides || w.Name != gate.WayFail
	}
	switch {
	case costs:
		return "What would decide it (trials and costs are estimates from this job):"
	case trials:
		return "What would decide it (numbers of trials are estimates from this job):"
	case decides:
		return "What would decide it:"
	}
	return "What would make it count:"
}

// BaselineLead returns the words before Input.Baseline.
func (in Input) BaselineLead() string {
	if in.Diff != nil {
		return "Compared with "
	}
	return "No baseline: "
}

// CountOf returns a number of tasks with a change: "8 broken". Of fixed tasks it says so if chance
// alone fixes as many: "12 fixed (as chance does)".
func (in Input) CountOf(change result.Change, n int) string {
	text := Count(n) + " " + string(change)
	if change == result.Fixed && in.Verdict.FixedByChance {
		text += AsChanceDoes
	}
	return text
}

// AsChanceDoes follows a number of fixed tasks that is no more than chance explains.
const AsChanceDoes = " (as chance does)"

// Headline summarizes how the job ended in a few words, none of them from outside: "2 broken, 1
// fixed, 3 tasks not compared", or without a baseline "10 of 12 tasks passed". It counts the tasks
// of the evaluated agents: oracle and nop count only where there is no other, and nop only where it
// is alone. Tasks that broke for the oracle are named apart. The tasks of several agents are not
// added up: "2 agents passed 3 to 5 of 12 tasks each". A job whose rewards come from judges is
// summed up by its mean reward, because few of those are 1. If no task has a result, Headline says
// so.
func (in Input) Headline(cases []Case) string {
	if in.Job.NothingAffected() {
		return "nothing that changed can affect a trial"
	}
	if in.Job.UnchangedSince(in.Diff) {
		return "nothing has changed since the baseline"
	}
	agents := PassedTasks(evaluated(cases))
	if text := nothingHeadline(agents); text != "" {
		return text
	}
	if in.Diff == nil {
		if text := judgedHeadline(evaluated(cases)); text != "" {
			return text
		}
		switch len(agents) {
		case 0:
			return "0 of 0 tasks passed"
		case 1:
			agents[0].Flaky = 0 // which a heading does not tell
			return agents[0].String()
		}
		passed, total := agents[0], agents[0] // the least and the most
		for _, a := range agents {
			passed.Passed, passed.Total = min(passed.Passed, a.Passed), min(passed.Total, a.Total)
			total.Passed, total.Total = max(total.Passed, a.Passed), max(total.Total, a.Total)
		}
		tasks := Plural(total.Total, "task")
		if passed.Total < total.Total {
			tasks = Count(passed.Total) + " to " + tasks
		}
		count := Count(total.Passed)
		if passed.Passed < total.Passed {
			count = Count(passed.Passed) + " to " + count
		}
		return Plural(len(agents), "agent") + " passed " + count + " of " + tasks + " each"
	}
	var parts []string
	counts := in.Diff.CountsEvaluated()
	for _, change := range []result.Change{result.Broken, result.Errored, result.Worse, result.Fixed, result.Better} {
		if n := counts[change]; n > 0 {
			parts = append(parts, in.CountOf(change, n))
		}
	}
	if len(parts) == 0 {
		parts = append(parts, "no task got better or worse")
	}
	for _, change := range []result.Change{result.Broken, result.Errored} {
		if n := in.Diff.Counts[change] - counts[change]; n > 0 { // a task that its own solution does not solve any more
			parts = append(parts, Count(n)+" "+string(change)+" for the oracle")
		}
	}
	uncompared := 0
	for _, change := range []result.Change{result.Changed, result.New, result.Removed, result.Unknown} {
		uncompared += counts[change]
	}
	if uncompared > 0 {
		parts = append(parts, Plural(uncompared, "task")+" not compared")
	}
	return strings.Join(parts, ", ")
}

// nothingHeadline returns the headline if no agent has a result of any task; "" if one has, or
// without tasks.
func nothingHeadline(agents []AgentTasks) string {
	most, began := 0, false
	for _, a := range agents {
		if a.NotRun+a.NoResult < a.Total {
			return ""
		}
		most, began = max(most, a.Total), began || a.NoResult > 0
	}
	switch {
	case len(agents) == 0:
		return ""
	case len(agents) == 1:
		return agents[0].String()
	case began:
		return "no task has a result, of " + Plural(len(agents), "agent") + " and " + Plural(most, "task")
	}
	return "nothing ran, of " + Plural(len(agents), "agent") + " and " + Plural(most, "task")
}

// judgedHeadline returns the mean reward of each agent's tasks, "mean reward 0.63 over 12 tasks";
// "" if no reward comes from judges.
func judgedHeadline(cases []Case) string {
	judged := func(a Attempt) bool { return a.Trial.Notable() && judgesMadeReward(*a.Trial.Unpack()) }
	if !slices.ContainsFunc(cases, func(c Case) bool { return slices.ContainsFunc(c.Attempts(), judged) }) {
		return ""
	}
	rewards := map[string][]float64{}
	for _, c := range cases {
		if mean, ok := c.Reward(); ok {
			rewards[c.Agent] = append(rewards[c.Agent], mean)
		}
	}
	var means []float64
	fewest, most := len(cases), 0
	for _, of := range rewards {
		means = append(means, result.Mean(of))
		fewest, most = min(fewest, len(of)), max(most, len(of))
	}
	low, high, tasks := Number(slices.Min(means)), Number(slices.Max(means)), Plural(most, "task")
	if fewest < most {
		tasks = Count(fewest) + " to " + tasks
	}
	switch {
	case len(means) == 1:
		return "mean reward " + low + " over " + tasks
	case low == high:
		return Plural(len(means), "agent") + " with mean rewards of " + low + " over " + tasks + " each"
	}
	return Plural(len(means), "agent") + " with mean rewards of " + low + " to " + high + " over " + tasks + " each"
}

// judgesMadeReward reports whether judges entered the reward of a trial, so that it is not simply
// that of the tests.
func judgesMadeReward(t result.Trial) bool {
	if t.Reward == nil || t.TestsReward != nil && *t.TestsReward == *t.Reward {
		return false
	}
	return slices.ContainsFunc(t.Agents, func(run result.AgentRun) bool { return run.Role == result.RoleJudge })
}

// evaluated returns the cases of the agents that agent.Evaluated selects.
func evaluated(cases []Case) []Case {
	var names []string
	for _, c := range cases {
		if !slices.Contains(names, c.Agent) {
			names = append(names, c.Agent)
		}
	}
	all := len(names)
	if names = agent.Evaluated(names); len(names) == all {
		return cases
	}
	return slices.DeleteFunc(slices.Clone(cases), func(c Case) bool { return !slices.Contains(names, c.Agent) })
}

// AgentTasks counts the tasks that an agent passed in all of its attempts.
type AgentTasks struct {
	Agent         string
	Passed, Total int
	Flaky         int // of Total: passed in some of the attempts
	// NotRun and NoResult count those of Total whose attempts are no evidence about the agent: they
	// were skipped or cancelled, or their error is that of the infrastructure or of the task. In
	// those of NotRun the agent did not begin.
	NotRun, NoResult int
}

// String returns the numbers without the agent: "10 of 12 tasks passed, 1 flaky, 1 did not run".
func (a AgentTasks) String() string {
	of := " of " + Plural(a.Total, "task")
	switch {
	case a.Total > 0 && a.NotRun == a.Total:
		return Count(a.NotRun) + of + " did not run"
	case a.Total > 0 && a.NotRun+a.NoResult == a.Total:
		text := Count(a.Total) + of + map[bool]string{true: " has", false: " have"}[a.Total == 1] + " no result"
		if a.NotRun > 0 {
			text += ": " + Count(a.NotRun) + " did not run"
		}
		return text
	}
	text := Count(a.Passed) + of + " passed"
	for _, part := range []struct {
		n    int
		what string
	}{{a.Flaky, " flaky"}, {a.NotRun, " did not run"}, {a.NoResult, " without a result"}} {
		if part.n > 0 {
			text += ", " + Count(part.n) + part.what
		}
	}
	return text
}

// shown reports whether an attempt has a reward or an error that counts as a reward of 0, and if
// none has, whether the agent began in any attempt.
func (c Case) shown() (scored, began bool) {
	for _, a := range c.Attempts() {
		if a.Trial.Completed() {
			scored = true
		} else if t := a.Trial.Unpack(); t != nil {
			scored = scored || t.Failed() && t.Error.Type.Fault().Loses()
			began = began || t.Durations.AgentExecutionSec != nil
		}
	}
	return scored, began
}

// PassedTasks counts the tasks of each agent. Agents that are evaluated come first, by name, then
// oracle, and nop last.
func PassedTasks(cases []Case) []AgentTasks {
	var agents []AgentTasks
	at := map[string]int{}
	for _, c := range cases {
		i, ok := at[c.Agent]
		if !ok {
			i = len(agents)
			at[c.Agent] = i
			agents = append(agents, AgentTasks{Agent: c.Agent})
		}
		agents[i].Total++
		switch scored, began := c.shown(); {
		case c.State == Passed:
			agents[i].Passed++
		case c.State == Flaky:
			agents[i].Flaky++
		case c.State == Failed || c.State == Unverified || scored:
		case began:
			agents[i].NoResult++
		default:
			agents[i].NotRun++
		}
	}
	rank := map[string]int{agent.Oracle: 1, agent.Nop: 2}
	slices.SortFunc(agents, func(a, b AgentTasks) int {
		return cmp.Or(cmp.Compare(rank[a.Agent], rank[b.Agent]), cmp.Compare(a.Agent, b.Agent))
	})
	return agents
}
