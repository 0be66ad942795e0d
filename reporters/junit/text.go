package junit

import (
	"fmt"
	"path"
	"strings"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// Limits on texts, in bytes.
const (
	maxName    = 500
	maxMessage = 1000
	maxText    = 16 << 10
	maxWidth   = 500 // of a line
	maxLines   = 50  // of a log, in lines
)

func cut(s string) string { return untrusted.Cut(s, maxName) }

// text makes text from outside safe for an element.
func text(s string) string { return noAttachment(untrusted.XML(s)) }

// noAttachment breaks up lines that Jenkins or GitLab would read as attachments. With such a line a
// log could publish any file of the machine that reads the report.
func noAttachment(s string) string { return strings.ReplaceAll(s, "[[", "[ [") }

// failure returns the outcome of an attempt that did not pass: a line about what happened, and
// below it what explains it.
func (b *builder) failure(c report.Case, t result.Trial) *outcome {
	r := &outcome{Type: "reward", Message: "no reward"}
	if t.Reward != nil {
		r.Message = "reward " + report.Number(*t.Reward)
	}
	tests, tested := b.tests(t)
	if tested {
		r.Message += fmt.Sprintf(": %s of %s failed", report.Count(tests.Failed), report.Plural(tests.Passed+tests.Failed+tests.Skipped, "test"))
	}
	var lines []string
	if t.Error != nil {
		r.Type, r.Message = cut(untrusted.XMLLine(string(t.Error.Type))), untrusted.XMLLine(t.Error.Message)
		if t.Reward != nil {
			lines = append(lines, "reward "+report.Number(*t.Reward))
		}
	}
	r.Message = untrusted.Cut(r.Message, maxMessage)
	lines = append([]string{r.Message}, lines...)
	if c.Planned() > 1 {
		lines[0] = fmt.Sprintf("attempt %d of %d: %s", t.Attempt, c.Planned(), lines[0])
	}
	if !b.detail.excerpts {
		r.block = blockOf(noAttachment(strings.Join(lines, "\n")))
		return r
	}
	for _, run := range report.Doubts(t) {
		lines = append(lines, untrusted.Cut(untrusted.XMLLine(fmt.Sprintf("judge %s, score %s: %s", run.Name, report.Number(*run.Score), run.Reason)), maxMessage))
	}
	lines = append(lines, stepLines(t)...)
	if tested {
		lines = append(append(lines, ""), b.listTests(tests)...)
	}
	if file, log := report.Explain(b.in, t); !log.Empty() {
		log = log.Telling(maxLines, b.excerpt, maxWidth)
		lines = append(lines, "", report.Caption(log, file))
		lines = append(lines, log.Lines()...)
	}
	r.block = blockOf(text(strings.Join(lines, "\n")))
	return r
}

// stepLines returns a line for each step of a trial.
func stepLines(t result.Trial) (lines []string) {
	for _, line := range report.StepLines(t) {
		lines = append(lines, "step "+untrusted.XMLLine(line))
	}
	return lines
}

// passed returns the text of a case that passed: its steps, and the test cases of its verifiers.
func (b *builder) passed(c report.Case) []string {
	var lines []string
	for _, a := range c.Attempts() {
		if !a.Trial.There() || !b.detail.excerpts {
			continue
		}
		t := *a.Trial.Unpack()
		lines = append(lines, stepLines(t)...)
		if tests, ok := b.tests(t); ok {
			lines = append(lines, b.listTests(tests)...)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return []string{text(strings.Join(lines, "\n"))}
}

// tests returns the test cases of a trial's verifier; false if there are none or the document has
// no room for them.
func (b *builder) tests(t result.Trial) (report.Tests, bool) {
	if !b.detail.excerpts {
		return report.Tests{}, false
	}
	return report.VerifierTests(b.in, t)
}

// listTests returns the test cases of a verifier as lines: as many as there is room for, the failed
// ones first.
func (b *builder) listTests(tests report.Tests) []string {
	lines := []string{fmt.Sprintf("%s: %s passed, %s failed, %s skipped", path.Base(tests.File), report.Count(tests.Passed), report.Count(tests.Failed), report.Count(tests.Skipped))}
	marks := map[report.TestStatus]string{report.TestFailed: "✗", report.TestPassed: "✓", report.TestSkipped: "○"}
	room := b.excerpt
	for i, t := range tests.List {
		entry := []string{marks[t.Status] + " " + untrusted.XMLLine(t.Name)}
		if t.Suite != "" {
			entry[0] += " (" + untrusted.XMLLine(t.Suite) + ")"
		}
		if t.Message != "" {
			for _, l := range untrusted.Lines(t.Message) {
				entry = append(entry, "    "+l)
			}
		}
		for j, l := range entry {
			entry[j] = untrusted.Cut(l, maxWidth)
			room -= len(entry[j]) + 1
		}
		if room < 0 {
			return append(lines, fmt.Sprintf("… and %s more", report.Count(tests.Passed+tests.Failed+tests.Skipped-i)))
		}
		lines = append(lines, entry...)
	}
	if more := tests.Passed + tests.Failed + tests.Skipped - len(tests.List); more > 0 {
		lines = append(lines, fmt.Sprintf("… and %s more", report.Count(more)))
	}
	return lines
}

// attachments returns lines that Jenkins' junit-attachments plugin and GitLab read: the logs of the
// attempts that did not pass, with paths relative to the command's working directory.
func (b *builder) attachments(c report.Case) []string {
	if !b.detail.excerpts || c.State == report.Passed {
		return nil
	}
	var lines []string
	for _, a := range c.Attempts() {
		if !a.Trial.There() || a.Trial.Passed() {
			continue
		}
		for _, log := range report.Logs(b.in, *a.Trial.Unpack()) {
			if name := b.relative(log); untrusted.XMLLine(name) == name && !strings.Contains(name, "]]") && !strings.Contains(name, "[[") {
				lines = append(lines, "[[ATTACHMENT|"+name+"]]")
			}
		}
	}
	return lines
}

// relative returns a path in the job's directory relative to the command's working directory, if
// that contains the job's.
func (b *builder) relative(name string) string {
	dir := strings.ReplaceAll(b.in.Dir, `\`, "/")
	if dir == "" || path.IsAbs(dir) || path.Clean(dir) == ".." || strings.HasPrefix(path.Clean(dir), "../") || strings.Contains(dir, ":") {
		return name
	}
	return path.Join(dir, name)
}
