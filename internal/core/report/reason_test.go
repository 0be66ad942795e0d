package report_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
)

// failedWith returns n trials with the same type of error, with these messages and logs.
func failedWith(n int, message, log func(i int) string) (report.Input, []result.Packed) {
	in := report.Input{Files: fstest.MapFS{}}
	var trials []result.Trial
	for i := range n {
		t := result.Trial{Key: result.Key{Agent: "a", Dataset: "d", Task: fmt.Sprintf("task-%05d", i), Attempt: 1}}
		t.Error = &result.Error{Type: result.AgentExecutionFailed, Message: message(i)}
		in.Files.(fstest.MapFS)[t.Dir()+"/command/stderr.txt"] = &fstest.MapFile{Data: []byte(log(i))}
		trials = append(trials, t)
	}
	return in, result.PackAll(trials)
}

func TestReasons(t *testing.T) {
	same := func(text string) func(int) string { return func(int) string { return text } }
	numbered := func(format string) func(int) string { return func(i int) string { return fmt.Sprintf(format, i) } }
	letters := func(i int) string { // text without a digit
		return strings.Map(func(r rune) rune { return r - '0' + 'k' }, fmt.Sprintf("%05d", i))
	}
	for _, c := range []struct {
		name         string
		message, log func(int) string
		n            int
		want         int // reasons
	}{
		{"the same message and log", same("exit 1"), same("no module"), 20, 1},
		{"numbers and the task's name do not count", numbered("exit after %d s"), numbered("0x%[1]x: /work/task-%05[1]d is gone"), 20, 1},
		{"different logs", same("exit 1"), letters, 20, 20},
		{"different messages", letters, same("no module"), 20, 20},
		{"of many trials that failed alike not all are read", same("exit 1"), same("no module"), 10_000, 2},
		{"of many that differ the rest is one reason", same("exit 1"), letters, 10_000, 1001},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, trials := failedWith(c.n, c.message, c.log)
			reasons := report.Reasons(in, trials, 5)
			if len(reasons) != c.want {
				t.Fatalf("%d reasons, want %d: %+v", len(reasons), c.want, reasons[:min(len(reasons), 3)])
			}
			n := 0
			for i, r := range reasons {
				n += len(r.Trials)
				if r.Unread != (i == len(reasons)-1 && c.n > 1000) || r.Unread != r.Log.Empty() {
					t.Errorf("reason %d: unread is %v, its log is %q", i, r.Unread, r.Log.Lines())
				}
			}
			if n != c.n {
				t.Errorf("%d trials have a reason, want %d", n, c.n)
			}
		})
	}
}

func TestReasonsDoNotRepeatTheMessage(t *testing.T) {
	trial := result.Trial{Key: result.Key{Agent: "a", Dataset: "d", Task: "t", Attempt: 1}}
	trial.Error = &result.Error{Type: result.EnvironmentBuildFailed, Message: "the build failed"}
	for text, want := range map[string]string{
		"environment_build_failed: the build failed\n":                  "",
		"environment_build_failed: the build failed\n\nE: no package x": "E: no package x",
	} {
		in := report.Input{Files: fstest.MapFS{trial.Dir() + "/error.txt": {Data: []byte(text)}}}
		reasons := report.Reasons(in, result.PackAll([]result.Trial{trial}), 5)
		if got := strings.TrimSpace(strings.Join(reasons[0].Log.Lines(), "\n")); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestFailureKindOfAForgedError(t *testing.T) {
	forged := result.Trial{Error: &result.Error{Type: "\x1b[31m::error::"}}
	if got := report.FailureKind(forged); got != report.OtherError {
		t.Errorf("got %q", got)
	}
}

func TestHeadlineOfSeveralAgents(t *testing.T) {
	cases := func(agents ...string) (cases []report.Case) {
		for _, a := range agents { // "name PFF": a state for each task
			name, states, _ := strings.Cut(a, " ")
			for _, s := range states {
				state := map[rune]report.State{'P': report.Passed, 'F': report.Failed, 'Y': report.Flaky}[s]
				cases = append(cases, report.Case{Agent: name, State: state})
			}
		}
		return cases
	}
	for _, c := range []struct {
		cases       []report.Case
		want, lines string
	}{
		{cases("mine PFF", "nop FFF", "oracle PPP"), "1 of 3 tasks passed", "mine: 1 of 3 tasks passed; oracle: 3 of 3 tasks passed; nop: 0 of 3 tasks passed"},
		{cases("mine PFY", "zeta PPF"), "2 agents passed 1 to 2 of 3 tasks each", "mine: 1 of 3 tasks passed, 1 flaky; zeta: 2 of 3 tasks passed"},
		{cases("mine PP", "zeta PPF"), "2 agents passed 2 of 2 to 3 tasks each", "mine: 2 of 2 tasks passed; zeta: 2 of 3 tasks passed"},
		{nil, "0 of 0 tasks passed", ""},
	} {
		if got := (report.Input{}).Headline(c.cases); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
		var lines []string
		for _, a := range report.PassedTasks(c.cases) {
			lines = append(lines, a.Agent+": "+a.String())
		}
		if got := strings.Join(lines, "; "); got != c.lines {
			t.Errorf("got %q, want %q", got, c.lines)
		}
	}
}
