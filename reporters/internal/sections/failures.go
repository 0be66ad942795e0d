package sections

import (
	"strings"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// failures are the cases with one type of error.
type failures struct {
	kind  string // not from outside
	cases []*report.Case
}

// Failures explains what did not pass, by type of error: the message, and the end of the log that
// explains it. heading is the Markdown prefix of the heading for each type.
func (p *Page) Failures(heading string) string {
	if p.detail.Excerpts == 0 {
		return ""
	}
	var parts []string
	if text := report.UnreachableText(p.in.Trials); text != "" {
		parts = append(parts, text+".")
	}
	left := p.detail.Excerpts
	for _, group := range p.kinds {
		parts = append(parts, heading+" "+group.kind+": "+report.Plural(len(group.cases), "task"))
		shown := group.cases[:min(len(group.cases), left)]
		left -= len(shown)
		for _, c := range shown {
			parts = append(parts, p.explained(*c))
		}
		if more := len(group.cases) - len(shown); more > 0 {
			parts = append(parts, "… and "+report.Count(more)+" more.")
		}
	}
	return Join(parts...)
}

// byKind groups problems by type of error. The group with the most important case comes first. What
// ended with its provider is left out.
func byKind(problems []*report.Case) []failures {
	var groups []failures
	at := map[string]int{}
	for _, c := range problems {
		t := c.FirstFailure()
		if t == nil || t.EndedUnreachable() {
			continue
		}
		kind := kindOf(*t)
		i, ok := at[kind]
		if !ok {
			i = len(groups)
			at[kind] = i
			groups = append(groups, failures{kind: kind})
		}
		groups[i].cases = append(groups[i].cases, c)
	}
	return groups
}

// kindOf returns the heading of a trial's group.
func kindOf(t result.Trial) string {
	switch kind := report.FailureKind(t); kind {
	case report.BelowOne:
		return "Reward below 1"
	case report.OtherError:
		return "Another error"
	default:
		return "`" + kind + "`"
	}
}

// explained returns a case, folded.
func (p *Page) explained(c report.Case) string {
	t := *c.FirstFailure()
	title := untrusted.HTMLCode(untrusted.Cut(untrusted.Line(c.Agent+"/"+c.Dataset+"/"+c.Task), 2*maxName))
	if c.Planned() > 1 {
		title += " attempt " + report.Count(t.Attempt) + " of " + report.Count(c.Planned())
	}
	if t.Reward != nil {
		title += ", reward " + report.Number(*t.Reward)
	}
	if sign := p.signOf(c.Change()); worthARow(c.Change()) {
		title += ", " + sign
	}
	var parts []string
	if t.Error != nil {
		parts = append(parts, "Error: "+words(t.Error.Message))
	}
	if lines := p.steps(t); len(lines) > 0 {
		parts = append(parts, "Steps:\n", strings.Join(lines, "\n")+"\n")
	}
	var doubts []string
	for _, run := range report.Doubts(t) {
		if len(doubts) < maxVerdicts {
			doubts = append(doubts, "- "+opinion(run))
		}
	}
	if len(doubts) > 0 {
		parts = append(parts, "What judges said:\n", strings.Join(doubts, "\n")+"\n")
	}
	e := p.explain(t)
	if e.tested {
		parts = append(parts, p.tests(e.tests))
	}
	if log := e.log.Telling(p.detail.Lines, 8<<10, 300); !log.Empty() {
		parts = append(parts, report.Caption(log, name(e.file)), untrusted.Fence(log.Lines()))
	}
	if len(parts) == 0 {
		parts = append(parts, "No log tells why.")
	}
	return Details(title, Join(parts...))
}

// steps returns list items for the steps of a trial.
func (p *Page) steps(t result.Trial) (lines []string) {
	all := report.StepLines(t)
	for i, line := range all {
		if i == p.detail.Lines {
			return append(lines, "- … and "+report.Count(len(all)-i)+" more")
		}
		lines = append(lines, "- "+words(line))
	}
	return lines
}

// tests returns the number of a verifier's own test cases, and those that failed.
func (p *Page) tests(tests report.Tests) string {
	all := tests.Passed + tests.Failed + tests.Skipped
	text := "Tests: " + report.Count(tests.Passed) + " of " + report.Count(all) + " passed"
	if tests.Skipped > 0 {
		text += ", " + report.Count(tests.Skipped) + " skipped"
	}
	text += ".\n"
	if tests.Failed == 0 {
		return text
	}
	var lines []string
	for _, t := range tests.List {
		if t.Status != report.TestFailed {
			break
		}
		if len(lines) == p.detail.Lines {
			lines = append(lines, "… and more")
			break
		}
		line := "✗ " + untrusted.Line(t.Name)
		if message := untrusted.Line(t.Message); message != "" {
			line += ": " + message
		}
		lines = append(lines, untrusted.Cut(line, 300))
	}
	return text + "\n" + untrusted.Fence(lines)
}
