package annotations

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// DefaultPerType is the number of annotations of each type that the runner keeps of a step.
// Source: actions/runner, ExecutionContext.cs, _maxCountPerIssueType.
const DefaultPerType = 10

// Reporter writes a line for each annotation, the most important ones first:
//   - errors for what makes the job fail or what the change broke: something missing, a check that
//     failed, a task that is broken or ended with an error
//   - warnings for tasks that got worse, are flaky or, without a baseline, did not pass, and for
//     broken tasks in quarantine
//   - notices for tasks that got better, and for those that still do not pass
type Reporter struct {
	// PerType is the largest number of annotations of each type; 0 means DefaultPerType. If there
	// are more, the last one has their number.
	PerType int
}

// level is a type of annotation. Its value is the name of the workflow command.
type level string

const (
	failure level = "error"
	warning level = "warning"
	notice  level = "notice"
)

// annotation is one annotation. All its texts may come from outside.
type annotation struct {
	level                level
	file, title, message string
}

// Limits on the texts of an annotation.
const (
	maxTitle     = 200
	excerptLines = 10
	excerptBytes = 4 << 10
	excerptWidth = 500
)

// Write implements report.Reporter.
func (r Reporter) Write(w io.Writer, in report.Input) error {
	most := cmp.Or(r.PerType, DefaultPerType)
	all := jobAnnotations(in)
	byLevel := map[level][]report.Case{}
	for _, c := range report.Cases(in) {
		if l := levelOf(in, c); l != "" {
			byLevel[l] = append(byLevel[l], c)
		}
	}
	var b strings.Builder
	for _, l := range []level{failure, warning, notice} {
		writeLevel(&b, in, l, all[l], report.Ordered(byLevel[l]), most)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeLevel writes the annotations of one type: those of the job, then those of tasks.
func writeLevel(b *strings.Builder, in report.Input, l level, jobs []annotation, cases []*report.Case, most int) {
	total := len(jobs) + len(cases)
	room := most
	if total > most {
		room-- // for the annotation with the number of the others
	}
	for i := range min(total, room) {
		if i < len(jobs) {
			jobs[i].write(b)
		} else {
			taskAnnotation(in, l, *cases[i-len(jobs)]).write(b)
		}
	}
	if total > most && most > 0 {
		annotation{level: l, title: "Rollout", message: fmt.Sprintf("and %s more of this kind: see the job summary, or the results in %s", report.Count(total-room), in.Dir)}.write(b)
	}
}

// jobAnnotations returns the annotations that are not about a single task.
func jobAnnotations(in report.Input) map[level][]annotation {
	all := map[level][]annotation{}
	add := func(l level, title, message string) {
		all[l] = append(all[l], annotation{level: l, title: title, message: message})
	}
	for _, s := range in.Incomplete {
		add(failure, "Rollout: something is missing", s)
	}
	if text := report.UnreachableText(in.Trials); text != "" {
		add(failure, "Rollout: the provider did not answer", text)
	}
	failed := failure
	if in.Spared() {
		failed = warning
	}
	for _, c := range in.Verdict.Checks {
		title, message := "Rollout: "+c.Name, c.Message
		if c.Hint != "" {
			message += "\n" + c.Hint
		}
		switch {
		case c.Outcome == gate.Fail, c.Outcome == gate.Inconclusive && in.Policy.OnInconclusive == gate.Fail:
			add(failed, title, message)
		case c.Outcome == gate.Inconclusive:
			add(warning, title+" (inconclusive)", message)
		}
	}
	return all
}

// levelOf returns the type of a task's annotation; "" if it gets none.
func levelOf(in report.Input, c report.Case) level {
	if t := c.FirstFailure(); t != nil && c.State == report.Errored && t.EndedUnreachable() {
		return "" // one annotation covers all of them
	}
	l := level("")
	switch change := c.Change(); {
	case change == result.Broken, change == result.Errored:
		l = failure
	case c.NotBroken():
		l = warning
	case c.State == report.Errored:
		l = failure
	case change == result.Worse, c.State == report.Flaky:
		l = warning
	case change == result.Fixed, change == result.Better:
		l = notice
	case c.Expected():
	case c.State == report.Failed && in.Diff == nil:
		l = warning
	case c.State == report.Failed:
		l = notice
	}
	if l == failure && (c.Quarantine != nil || in.Spared()) {
		return warning
	}
	return l
}

// taskAnnotation returns the annotation of one task.
func taskAnnotation(in report.Input, l level, c report.Case) annotation {
	a := annotation{level: l, title: title(c) + ": " + untrusted.Line(c.Task) + " (" + untrusted.Line(c.Agent) + ", " + untrusted.Line(c.Dataset) + ")"}
	a.file = c.File()
	var lines []string
	if d := c.Diff; d != nil && d.Comparable() {
		lines = append(lines, "mean reward "+report.Number(d.Base.Mean())+" → "+report.Number(d.Head.Mean()))
	} else if mean, ok := c.Reward(); ok {
		lines = append(lines, "mean reward "+report.Number(mean))
	}
	if text := c.ConfirmedText(); text != "" {
		lines = append(lines, text)
	}
	if c.Quarantine != nil {
		lines = append(lines, "not gated until "+c.Quarantine.Until+": "+c.Quarantine.Reason)
	}
	if t := c.FirstFailure(); t != nil {
		if t.Error != nil {
			lines = append(lines, string(t.Error.Type)+": "+t.Error.Message)
		}
		if file, log := report.Explain(in, *t); !log.Empty() {
			log = log.Telling(excerptLines, excerptBytes, excerptWidth)
			lines = append(lines, "", report.Caption(log, file))
			lines = append(lines, log.Lines()...)
		}
	}
	a.message = strings.Join(lines, "\n")
	return a
}

// title returns how a task ended, in a few words.
func title(c report.Case) string {
	if c.NotBroken() {
		return "Task is flaky"
	}
	switch change := c.Change(); change {
	case result.Broken, result.Errored, result.Worse, result.Fixed, result.Better:
		return "Task " + string(change)
	}
	switch c.State {
	case report.Errored:
		return "Task ended with an error"
	case report.Flaky:
		return "Task is flaky"
	}
	return "Task did not pass"
}

// write writes the command. The runner requires a message.
func (a annotation) write(b *strings.Builder) {
	b.WriteString("::" + string(a.level))
	sep := " "
	for _, p := range []struct{ name, value string }{{"file", a.file}, {"title", untrusted.Cut(untrusted.Line(a.title), maxTitle)}} {
		if value := untrusted.CommandProperty(p.value); value != "" {
			b.WriteString(sep + p.name + "=" + value)
			sep = ","
		}
	}
	b.WriteString("::" + cmp.Or(untrusted.CommandData(a.message), "see the job summary") + "\n")
}
