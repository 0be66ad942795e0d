package sections

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// Title returns the heading: how the job ended, without any text from outside.
func (p *Page) Title() string { return p.title }

// Reason returns the missing parts of the job, the gate's reason, and the baseline.
func (p *Page) Reason() string {
	var b strings.Builder
	if len(p.in.Incomplete) > 0 {
		b.WriteString("**" + report.MissingLead + "**\n\n" + list(p.in.Incomplete) + "\n")
	}
	if left := report.LeftOut(p.in.Job); left != "" {
		b.WriteString(words(left) + "\n\n")
	}
	if reason := p.in.Verdict.Reason; reason != "" {
		if p.detail.Short {
			reason = withoutStatistics(reason)
		}
		b.WriteString("Gate: " + words(reason) + "\n\n")
	}
	if ways := p.in.WaysOut(); len(ways) > 0 {
		b.WriteString(report.WaysOutLead(p.in.Verdict.WaysOut) + "\n\n" + list(ways) + "\n")
	}
	if p.in.Mark() == report.MarkPart {
		b.WriteString(report.PartNote + "\n\n")
	}
	if p.in.Baseline != "" {
		b.WriteString(p.in.BaselineLead() + words(strings.TrimSuffix(p.in.Baseline, ".")) + ".\n")
	}
	return b.String()
}

// statistics are the parts of a message of the gate about an interval and about chance, with the
// punctuation before them.
var statistics = regexp.MustCompile(`[,;] [0-9.]+% interval [^ ,;)]+ to [^ ,;)]+|; chance alone does that in [^;]*? of runs( \([^)]*\))?`)

// withoutStatistics returns a reason of the gate without intervals and p-values, which the table of
// checks has.
func withoutStatistics(reason string) string { return statistics.ReplaceAllString(reason, "") }

// Numbers returns the results of each agent, those of the baseline on the same tasks, and the time
// and cost of all trials. There is no rate over several agents, because it would say nothing about
// any of them.
func (p *Page) Numbers() string {
	if p.in.Diff == nil || p.in.Diff.Overall.Tasks == 0 {
		return p.rates() + p.spent() + "\n"
	}
	o := p.in.Diff.Overall
	rows := p.levels()
	now, then := o.Head, o.Base
	cost := shareOfCost(now.Cost, then.Cost)
	if !o.CostsComparable() {
		cost = "not comparable"
	}
	rows = append(rows,
		[]string{"Cost of a trial", report.Cost(now.Cost), report.Cost(then.Cost), cost},
		[]string{"Time of a trial", report.MeanDuration(now.DurationSec), report.MeanDuration(then.DurationSec), shareOfTime(now.DurationSec, then.DurationSec)},
	)
	rows = slices.DeleteFunc(rows, func(r []string) bool { return r[1] == "–" && r[2] == "–" }) // unknown on both sides
	text := p.long(telling([]string{"", ">now", ">baseline", ">change"}, rows))
	text += "\nMeans per trial over the " + report.Plural(o.Tasks, "task") + " that both have, unchanged"
	if p.detail.Short {
		return text + ". In all: " + p.spent() + ".\n"
	}
	text += " and judged; a trial that the agent, the verifier or a judge ended without a reward counts as 0. In all: " + p.spent()
	if len(p.in.Job.Agents) == 1 {
		text += ", pass rate " + report.Percent(p.in.Job.PassRate) + " " + bar(p.in.Job.PassRate)
	}
	return text + ".\n"
}

// levels returns rows with the pass rate and the mean reward of each agent, now and in the
// baseline.
func (p *Page) levels() [][]string {
	var rows [][]string
	for i, a := range p.in.Diff.Agents {
		if i == maxGroups {
			break
		}
		of := ""
		if len(p.in.Diff.Agents) > 1 {
			of = " of " + name(a.Agent)
		}
		now, then := a.Head, a.Base
		rows = append(rows,
			[]string{"Pass rate" + of, "**" + report.Percent(now.PassRate) + "**", report.Percent(then.PassRate), p.change(a.Agent, now.PassRate-then.PassRate, report.Points, "min_pass_rate", "max_pass_rate_drop")},
			[]string{"Mean reward" + of, "**" + report.Number(now.MeanReward) + "**", report.Number(then.MeanReward), p.change(a.Agent, now.MeanReward-then.MeanReward, report.Number, "min_mean_reward", "max_mean_reward_drop")},
		)
	}
	return rows
}

// rates returns the pass rate and the mean reward of each agent; with several agents each has a
// line.
func (p *Page) rates() string {
	agents := slices.Sorted(maps.Keys(p.in.Job.Agents))
	var b strings.Builder
	for i, agent := range agents {
		if i == maxGroups {
			b.WriteString("- … and " + report.Count(len(agents)-i) + " more agents\n")
			break
		}
		a := p.in.Job.Agents[agent]
		of := ""
		if a.CompletedTrials > 0 && a.CompletedTrials < a.TotalTrials {
			of = " (of the " + report.Plural(a.CompletedTrials, "trial") + " with a reward)"
		}
		rate, mean := report.Percent(a.PassRate)+"** "+bar(a.PassRate), report.Number(a.MeanReward)+"**"
		if a.CompletedTrials == 0 {
			rate, mean = "–**", "–**"
		}
		switch text := "ass rate **" + rate + " · mean reward **" + mean + of; len(agents) {
		case 1:
			return "P" + text + " · "
		default:
			b.WriteString("- " + name(agent) + ": p" + text + ", " + report.Plural(a.TotalTrials, "trial") + unfinished(a) + "\n")
		}
	}
	if b.Len() > 0 {
		b.WriteString("\nIn all: ")
	}
	return b.String()
}

// spent returns the number of trials, their time and their cost.
func (p *Page) spent() string {
	j := p.in.Job
	all := j.Summary
	if len(j.Agents) > 1 {
		all.PassRateAll = all.PassRate // which is of no agent
	}
	if p.detail.Short {
		all.PassRateAll = all.PassRate // one rate is enough
	}
	trials := report.Plural(j.TotalTrials, "trial") + unfinished(all)
	cost := spent(j.TotalCost)
	if judges := j.Costs.Judges; judges.Amount() > 0 {
		cost += " (judges " + report.Cost(judges) + ")"
	}
	return strings.Join([]string{trials, cost, report.Duration(j.TotalDurationSec)}, " · ")
}

// unfinished returns how many trials have no reward, and what the rate is if they count as 0; "" if
// all have one.
func unfinished(s result.Summary) string {
	var parts []string
	if s.FailedTrials > 0 {
		parts = append(parts, report.Count(s.FailedTrials)+" with an error")
	}
	if s.SkippedTrials > 0 {
		parts = append(parts, report.Count(s.SkippedTrials)+" not run")
	}
	if len(parts) == 0 {
		return ""
	}
	if s.PassRateAll != s.PassRate {
		parts = append(parts, "pass rate over all "+report.Percent(s.PassRateAll))
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// bar returns a rate as a bar of ten blocks.
func bar(rate float64) string {
	full := int(min(max(rate, 0), 1)*10 + 1e-9)
	return "`" + strings.Repeat("█", full) + strings.Repeat("░", 10-full) + "`"
}

// change formats the difference of an agent's rate, with a dot in the colour of its direction if
// one of checks limits that rate. Without a limit a red dot would look like a failure.
func (p *Page) change(agent string, delta float64, format func(float64) string, checks ...string) string {
	s := report.Signed(delta, format)
	limited := slices.ContainsFunc(p.in.Verdict.Checks, func(c gate.Check) bool {
		matches, _ := path.Match(c.Agent, agent)
		return slices.Contains(checks, c.Name) && !c.Skipped && (c.Agent == "" || c.Agent == agent || matches)
	})
	switch {
	case s == "±0" || !limited:
		return s
	case delta > 0:
		return "🟢 " + s
	}
	return "🔴 " + s
}

// share formats a difference, also as a percentage of the amount before.
func share(now, then float64, format func(float64) string) string {
	s := report.Signed(now-then, format)
	if s == "±0" || then <= 0 {
		return s
	}
	percent := (now - then) / then * 100
	if !(percent > -999 && percent < 999) { // or not a number, as of two infinite amounts
		return s
	}
	return fmt.Sprintf("%s (%s%%)", s, strings.Replace(fmt.Sprintf("%+.0f", percent), "-", "−", 1))
}

// shareOfTime returns the change of a mean duration as share does; "–" if one of them is not known.
func shareOfTime(now, then *float64) string {
	if now == nil || then == nil {
		return "–"
	}
	return share(*now, *then, report.Duration)
}

// shareOfCost returns the change of a cost as share does; "–" if one of the costs was not reported.
func shareOfCost(now, then result.USD) string {
	if change := now.Minus(then); change.AtLeast() {
		return "not comparable"
	} else if _, ok := change.Reported(); !ok {
		return "–"
	}
	return share(now.Amount(), then.Amount(), report.Dollars)
}

// Checks returns the gate's checks, failed ones first, and its notes.
func (p *Page) Checks() string {
	v := p.in.Verdict
	order := map[gate.Outcome]int{gate.Fail: 0, gate.Inconclusive: 1, gate.Pass: 2}
	checks := slices.Clone(v.Checks)
	slices.SortStableFunc(checks, func(a, b gate.Check) int { return order[a.Outcome] - order[b.Outcome] })
	var rows [][]string
	for _, c := range checks {
		what := name(c.Name)
		if c.Agent != "" {
			what += " agent " + name(c.Agent)
		}
		if c.Dataset != "" {
			what += " dataset " + name(c.Dataset)
		}
		says := words(c.Message)
		if c.Hint != "" {
			says += " → " + words(c.Hint)
		}
		rows = append(rows, []string{sign(c), what, says})
	}
	kept := rows[:min(len(rows), maxList)]
	text := table([]string{"", "Check", "Result"}, kept)
	if len(kept) < len(rows) {
		text += "\n… and " + report.Count(len(rows)-len(kept)) + " more.\n"
	}
	for i, q := range v.Quarantined {
		if i == maxList {
			text += "\n… and " + report.Count(len(v.Quarantined)-i) + " more are not gated.\n"
			break
		}
		text += "\n🔒 " + name(q.Dataset+"/"+q.Task) + " is not gated until " + words(q.Until) + ": " + words(q.Reason) + "\n"
	}
	if notes := list(slices.Concat(v.Notes, p.notes(), p.odd)); notes != "" {
		text += "\n" + notes
	}
	return text
}

// notes returns the notes without what Reason has.
func (p *Page) notes() []string {
	left := report.LeftOut(p.in.Job)
	return slices.DeleteFunc(slices.Clone(p.in.Notes), func(note string) bool { return note == left })
}

func sign(c gate.Check) string {
	switch {
	case c.Skipped:
		return "➖"
	case c.Outcome == gate.Pass:
		return "✅"
	case c.Outcome == gate.Inconclusive:
		return "🟡"
	}
	return "❌"
}

// Footer returns links to more, and what was left out.
func (p *Page) Footer() string {
	l := p.in.Links
	var parts []string
	link := func(text, address string) {
		if untrusted.URL(address) != "" {
			parts = append(parts, untrusted.Link(text, address))
		}
	}
	link("Workflow run", l.Run)
	switch {
	case l.Page == "":
	case !l.InArtifacts:
		parts = append(parts, "page "+name(l.Page)+" on the machine of the run")
	case untrusted.URL(l.Artifact) != "":
		parts = append(parts, untrusted.Link("page", l.Artifact)+" "+name(l.Page)+" among the artifacts")
	}
	link("All results", l.Artifact)
	if l.Sha != "" {
		parts = append(parts, "commit "+untrusted.Link(name(shortSha(l.Sha)), l.Commit))
	}
	if p.in.Job.JobName != "" {
		parts = append(parts, "job "+name(p.in.Job.JobName))
	}
	text := strings.Join(parts, " · ")
	if text != "" {
		text += "\n"
	}
	if p.detail.Omitted != "" {
		where := result.ResultFile + " in the job's directory"
		if p.in.Dir != "" {
			where = name(p.in.Dir)
		}
		if untrusted.URL(l.Artifact) != "" {
			where = untrusted.Link("the artifact", l.Artifact)
		}
		text = "Left out to fit: " + p.detail.Omitted + ". The whole is in " + where + ".\n\n" + text
	}
	return text
}

// shortSha shortens a full commit hash to 7 digits, and returns other text unchanged.
func shortSha(sha string) string {
	if len(sha) == 40 && strings.Trim(sha, "0123456789abcdef") == "" {
		return sha[:7]
	}
	return sha
}

// spent formats a job's cost for a line with other numbers.
func spent(cost result.USD) string {
	if _, ok := cost.Reported(); !ok {
		return "cost –"
	}
	return report.Cost(cost)
}
