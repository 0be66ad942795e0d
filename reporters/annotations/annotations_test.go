package annotations_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/test/reporttest"
	"github.com/org/rollout-action/internal/test/untrustedtest"
	"github.com/org/rollout-action/reporters/annotations"
)

func TestGolden(t *testing.T) {
	for name, in := range reporttest.Inputs() {
		t.Run(name, func(t *testing.T) {
			reporttest.Golden(t, name+".txt", reporttest.Write(t, annotations.Reporter{}, in))
		})
	}
}

// command is a line as GitHub's runner reads it. Source: actions/runner, ActionCommand.cs.
type command struct {
	name       string
	properties map[string]string
	message    string
}

func parse(t *testing.T, line string) command {
	t.Helper()
	rest, ok := strings.CutPrefix(strings.TrimSpace(line), "::")
	head, message, found := strings.Cut(rest, "::")
	if !ok || !found {
		t.Fatalf("not a command: %.200q", line)
	}
	name, properties, _ := strings.Cut(head, " ")
	c := command{name: name, message: unescape(message), properties: map[string]string{}}
	for p := range strings.SplitSeq(properties, ",") {
		if key, value, ok := strings.Cut(p, "="); ok && value != "" {
			c.properties[key] = strings.NewReplacer("%3A", ":", "%2C", ",").Replace(unescape(value))
		}
	}
	return c
}

func unescape(s string) string {
	s = strings.ReplaceAll(strings.ReplaceAll(s, "%0D", "\r"), "%0A", "\n")
	return strings.ReplaceAll(s, "%25", "%")
}

// check reads all that was written as the runner does, and holds it against the runner's rules.
func check(t *testing.T, what string, text []byte, perType int) []command {
	t.Helper()
	if !utf8.Valid(text) || strings.Contains(string(text), "##[") {
		t.Errorf("%s: not fit for a log", what)
	}
	var all []command
	counts := map[string]int{}
	for line := range strings.Lines(string(text)) {
		c := parse(t, line)
		all = append(all, c)
		counts[c.name]++
		switch c.name {
		case "error", "warning", "notice":
		default:
			t.Errorf("%s: a command %q", what, c.name)
		}
		for key, value := range c.properties {
			if key != "file" && key != "title" || strings.ContainsAny(value, "\r\n") {
				t.Errorf("%s: property %s=%.200q", what, key, value)
			}
			if strings.ContainsFunc(value, untrusted.Invisible) {
				t.Errorf("%s: invisible characters in %s=%.200q", what, key, value)
			}
		}
		if file := c.properties["file"]; strings.HasPrefix(file, "/") || strings.HasPrefix(file, "../") {
			t.Errorf("%s: points at %q", what, file)
		}
		if c.message == "" || len(c.message) > 4096 || strings.Contains(c.message, "\n::") {
			t.Errorf("%s: message of %d bytes: %.200q", what, len(c.message), c.message)
		}
	}
	for name, n := range counts {
		if n > perType {
			t.Errorf("%s: %d of type %s", what, n, name)
		}
	}
	return all
}

func TestAttacks(t *testing.T) {
	for _, a := range untrustedtest.Corpus {
		check(t, a.Name, reporttest.Write(t, annotations.Reporter{}, reporttest.Hostile(a)), 10)
	}
}

func TestTheMostTellingOfManyAreKept(t *testing.T) {
	in := reporttest.Large(1000) // 100 broken, 300 that never passed
	for _, most := range []int{10, 3, 1} {
		all := check(t, fmt.Sprintf("%d of each", most), reporttest.Write(t, annotations.Reporter{PerType: most}, in), most)
		errors := 0
		for i, c := range all {
			if c.name == "error" {
				errors = i + 1
			}
		}
		// A failed check and 100 broken tasks; the last of those shown counts the others.
		if last := all[errors-1].message; errors != most || !strings.HasPrefix(last, fmt.Sprintf("and %d more of this kind", 101-(most-1))) {
			t.Errorf("%d errors, the last %q", errors, last)
		}
	}
}

func TestAnnotationPointsAtTheFileWithTheFailure(t *testing.T) {
	files := map[string]string{}
	for _, c := range check(t, "errors", reporttest.Write(t, annotations.Reporter{PerType: 100}, reporttest.Errors()), 100) {
		kind, _, _ := strings.Cut(c.message, ":")
		files[kind] = c.properties["file"]
	}
	for kind, file := range map[string]string{
		"agent_install_failed": "instruction.md", "verifier_failed": "tests/test.sh", "environment_build_failed": "environment/Dockerfile",
		"environment_image_pull_failed": "task.toml", "task_invalid": "task.toml",
	} {
		want := "tasks/errors/task-" + strings.ReplaceAll(kind, "_", "-") + "/" + file
		if files[kind] != want {
			t.Errorf("%s points at %q, want %q", kind, files[kind], want)
		}
	}
}

func TestQuarantineIsNoError(t *testing.T) {
	for _, c := range check(t, "quarantine", reporttest.Write(t, annotations.Reporter{}, reporttest.Inconclusive()), 10) {
		if c.name == "error" {
			t.Errorf("an error: %+v", c)
		}
	}
}

// TestConfirmationsWithoutABaseline: what was tried again is said by a report without the baseline,
// too, and is no error if it passed.
func TestConfirmationsWithoutABaseline(t *testing.T) {
	in := reporttest.Confirmed()
	in.Diff, in.Baseline, in.Verdict = nil, "", gate.Verdict{}
	got := map[string]string{}
	for _, c := range check(t, "confirmed", reporttest.Write(t, annotations.Reporter{}, in), 10) {
		_, rest, _ := strings.Cut(c.properties["title"], ": ")
		task, _, _ := strings.Cut(rest, " (")
		for line := range strings.Lines(c.message) {
			if strings.Contains(line, "more attempt") || strings.Contains(line, "further attempt") {
				got[task] = c.name + ": " + strings.TrimSpace(line)
			}
		}
	}
	want := map[string]string{
		"broken-links": "warning: confirmed broken: passed 0 of 3 more attempts", "clean-exit": "error: confirmed broken: passed 0 of 4 more attempts",
		"library-fines": "warning: not broken: passed 1 of 3 more attempts", "photo-album": "warning: not broken: passed 1 of 1 more attempt",
		"split-the-bill": "warning: not confirmed: no further attempt showed anything",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

var _ report.Reporter = annotations.Reporter{}
