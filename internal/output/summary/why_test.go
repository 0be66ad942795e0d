package summary

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/charmbracelet/lipgloss"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
)

// explained returns a job whose failures have logs.
func explained() Input {
	files := fstest.MapFS{}
	var trials []result.Trial
	add := func(t result.Trial, file, log string) {
		files[t.Dir()+"/"+file] = &fstest.MapFile{Data: []byte(log)}
		trials = append(trials, t)
	}
	for i := range 7 {
		add(from("mine", "bench", failure(key("parse", i+1), result.AgentExecutionFailed, "the agent's execute script ended with exit code 1", 3)),
			"command/stderr.txt", strings.Repeat("a line\n", 40)+fmt.Sprintf("%d: ModuleNotFoundError: No module named 'litellm'\n", 1000+i))
	}
	add(from("mine", "bench", failure(key("sort", 1), result.AgentExecutionFailed, "the agent's execute script ended with exit code 1", 3)),
		"command/stderr.txt", "out of memory\n")
	for i, log := range []string{"FAIL the sum is 7, wanted 8", "FAIL no file out.txt", "FAIL the file is empty"} {
		add(from("mine", "bench", reward(key("sum", i+1), 0.5, 4)), "logs/verifier/stdout.txt", log+"\n")
	}
	in := job(nil, trials)
	in.Files = files
	in.Tasks = []report.AgentTasks{{Agent: "mine", Total: 11}, {Agent: "oracle", Passed: 11, Total: 11}, {Agent: "nop", Total: 11}}
	return in
}

func TestSummaryExplainsFailures(t *testing.T) {
	var b strings.Builder
	Write(&b, explained(), false, 80)
	golden(t, "explained", b.String())
}

// However trials fail, the summary has room on a screen or two, and nothing in it acts on the
// terminal.
func TestSummaryOfHostileLogs(t *testing.T) {
	letters := func(i int) string {
		return strings.Map(func(r rune) rune { return r - '0' + 'k' }, fmt.Sprintf("%05d", i))
	}
	for _, c := range []struct {
		name string
		kind func(i int) result.ErrorType
		log  func(i int) string
	}{
		{"alike", func(int) result.ErrorType { return result.AgentExecutionFailed }, func(int) string { return hostile + "\n::error::x\n" + strings.Repeat("wide ", 10_000) }},
		{"all different", func(int) result.ErrorType { return result.AgentExecutionFailed }, letters},
		{"all types different", func(i int) result.ErrorType { return result.ErrorType(letters(i)) }, letters},
		{"rewards", func(int) result.ErrorType { return "" }, letters},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := Input{Dir: "jobs/x"}
			var trials []result.Trial
			files := fstest.MapFS{}
			for i := range 1_000 {
				trial := from("mine", "bench", reward(key(letters(i), 1), 0, 1))
				file := "logs/verifier/stdout.txt"
				if kind := c.kind(i); kind != "" {
					trial.Reward, trial.Error = nil, &result.Error{Type: kind, Message: hostile + letters(i%7)}
					file = "command/stderr.txt"
				}
				files[trial.Dir()+"/"+file] = &fstest.MapFile{Data: []byte(c.log(i))}
				trials = append(trials, trial)
			}
			in.Trials = result.PackAll(trials)
			in.Files = files
			var b strings.Builder
			Write(&b, in, false, 80)
			noEscapes(t, b.String())
			noCommands(t, b.String())
			if n := strings.Count(b.String(), "\n"); n > 110 {
				t.Errorf("%d lines:\n%s", n, b.String())
			}
			for line := range strings.Lines(b.String()) {
				if width := lipgloss.Width(strings.TrimSuffix(line, "\n")); width > 80 && !strings.Contains(line, "jobs/") {
					t.Errorf("%d cells: %q", width, line)
				}
			}
		})
	}
}

func TestASmallLogIsShownWhole(t *testing.T) {
	in := explained()
	log := strings.Repeat("ok   a check\n", 12) + "FAIL never more than 10.00\n" + strings.Repeat("     got 12.00\n", 12) + "12 of 13 checks passed\n"
	dir := fstest.MapFS{}
	for i := range in.Trials {
		dir[in.Trials[i].Key().Dir()+"/logs/verifier/stdout.txt"] = &fstest.MapFile{Data: []byte(log)}
	}
	in.Files = dir
	var b strings.Builder
	Write(&b, in, false, 80)
	if out := b.String(); !strings.Contains(out, "\n  │ FAIL never more than 10.00\n") || strings.Contains(out, "left out") {
		t.Errorf("a log of %d bytes is not shown whole:\n%s", len(log), out)
	}
}
