package junit

import (
	"fmt"
	"path"
	"strings"

	"github.com/org/rollout-action/internal/report"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/untrusted"
)

// How long texts may be, in bytes.
const (
	maxName    = 500
	maxMessage = 1000
	maxText    = 16 << 10
	maxWidth   = 500 // of a line
	maxLines   = 50  // of a log
)

func cut(s string) string { return untrusted.Cut(s, maxName) }

// text is a block of foreign text for an element. A line that Jenkins or GitLab would take for an attachment is broken
// up: with it a log could publish any file of the machine that reads the report.
func text(s string) string { return noAttachment(untrusted.XML(s)) }

func noAttachment(s string) string { return strings.ReplaceAll(s, "[[", "[ [") }

// failure is an attempt that did not pass: in a line what happened, and below all that explains it.
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
	if len(c.Attempts) > 1 {
		lines[0] = fmt.Sprintf("attempt %d of %d: %s", t.Attempt, len(c.Attempts), lines[0])
	}
	if !b.detail.excerpts {
		r.block = blockOf(noAttachment(strings.Join(lines, "\n")))
		return r
	}
	if tested {
		lines = append(append(lines, ""), b.listed(tests)...)
	}
	if file, log := report.Explain(b.in, t); !log.Empty() {
		log = log.Fit(maxLines, b.excerpt, maxWidth)
		lines = append(lines, "", report.Caption(log, file))
		lines = append(lines, log.Lines()...)
	}
	r.block = blockOf(text(strings.Join(lines, "\n")))
	return r
}

// passing is what a case that passed says: the test cases of its verifiers.
func (b *builder) passing(c report.Case) []string {
	var lines []string
	for _, a := range c.Attempts {
		if a.Trial == nil {
			continue
		}
		if tests, ok := b.tests(*a.Trial); ok {
			lines = append(lines, b.listed(tests)...)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return []string{text(strings.Join(lines, "\n"))}
}

func (b *builder) tests(t result.Trial) (report.Tests, bool) {
	if !b.detail.excerpts {
		return report.Tests{}, false
	}
	return report.VerifierTests(b.in, t)
}

// listed is the test cases of a verifier, line by line: as many as there is room for, the failed ones first.
func (b *builder) listed(tests report.Tests) []string {
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

// attachments are the lines that Jenkins' junit-attachments plugin and GitLab read: the logs of the attempts that did not
// pass, by their paths as people are told of the job's folder.
func (b *builder) attachments(c report.Case) []string {
	if !b.detail.excerpts || c.State == report.Passed {
		return nil
	}
	var lines []string
	for _, a := range c.Attempts {
		if a.Trial == nil || a.Trial.Passed() {
			continue
		}
		for _, log := range report.Logs(b.in, *a.Trial) {
			if name := b.shown(log); untrusted.XMLLine(name) == name && !strings.Contains(name, "]]") && !strings.Contains(name, "[[") {
				lines = append(lines, "[[ATTACHMENT|"+name+"]]")
			}
		}
	}
	return lines
}

// shown is a path below the job's folder as seen from the folder that the command was run in, if that is above it.
func (b *builder) shown(name string) string {
	dir := strings.ReplaceAll(b.in.Dir, `\`, "/")
	if dir == "" || path.IsAbs(dir) || path.Clean(dir) == ".." || strings.HasPrefix(path.Clean(dir), "../") || strings.Contains(dir, ":") {
		return name
	}
	return path.Join(dir, name)
}
