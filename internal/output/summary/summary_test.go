package summary

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"

	"github.com/org/rollout-action/internal/core/result"
)

// job returns a job with the given trials, and with planned trials that have no result.
func job(metrics []string, trials []result.Trial, skipped ...result.Key) Input {
	plan := result.Plan{JobName: "nightly", StartedAt: start, Metrics: metrics}
	for i := range trials {
		plan.Trials.Append(trials[i].Key)
		trials[i].Timestamps.EndedAt = start.Add(time.Duration(i+1) * 10 * time.Second)
	}
	plan.Trials.Append(skipped...)
	return Input{
		Job: result.Summarize(plan, trials), Groups: result.Groups(plan, trials), Trials: result.PackAll(trials), Dir: "jobs/nightly",
	}
}

func from(agent, dataset string, t *result.Trial) result.Trial {
	t.Agent, t.Dataset = agent, dataset
	return *t
}

// everything returns a job that needs every section of a summary.
func everything() Input {
	var trials []result.Trial
	for i := range 8 {
		trials = append(trials, from("claude-code", "terminal-bench",
			failure(key("compile-compcert", i+1), result.AgentExecutionTimeout, "the agent was stopped after 600 s: give it more time with timeout_multiplier\nmore", 600)))
	}
	for i := range 12 {
		t := from("claude-code", "terminal-bench", reward(key("write-compressor", i+1), float64(i)/12, 33.3))
		t.Cost = result.Dollars(0.25)
		trials = append(trials, t)
	}
	for i := range 6 {
		t := from("oracle", "日本語のデータセット", reward(key("タスク", i+1), 1, 4.2))
		t.Environment = &result.Environment{Provider: "docker", ID: strings.Repeat("0123456789abcdef", 4), Unenforced: []string{"storage"}, Preserved: i < 2}
		trials = append(trials, t)
	}
	for i := range 7 {
		trials[i].Environment = &result.Environment{Provider: "sandbox", Base: &result.Base{
			Requested: []string{"python:3.12-slim", "node:22"}[i%2], Actual: "a copy-on-write view of this machine's root (Debian GNU/Linux 12)", Reason: "docker.io cannot be reached",
		}}
	}
	trials[20].Omitted = []result.Omission{{Path: "command/stdout.txt", Reason: "cut at 64 MiB"}, {Path: "logs/agent/core", Reason: "not a regular file"}}
	trials[21].Warnings = []string{"force_build has no effect: the task has no environment/Dockerfile", "another"}
	broken := from("oracle", "日本語のデータセット", reward(key("タスク", 9), 1, 5))
	broken.Error = &result.Error{Type: result.EnvironmentTeardownFailed, Message: "the container could not be removed"}
	return job([]string{"mean", "max"}, append(trials, broken))
}

func TestSummary(t *testing.T) {
	passed := func() []result.Trial {
		return []result.Trial{
			from("cpe", "bench", reward(key("a", 1), 1, 10)), from("cpe", "bench", reward(key("b", 1), 1, 12)),
		}
	}
	cancelled := job(nil, append(passed(),
		from("cpe", "bench", failure(key("c", 1), result.Cancelled, "the job was cancelled", 3)),
		from("oracle", "bench", failure(key("a", 1), result.Cancelled, "the job was cancelled", 3)),
	), *key("d", 1), *key("e", 1))
	stopped := job(nil, append(passed(), from("cpe", "bench", failure(key("c", 1), result.EnvironmentLost, "the engine is gone", 3))), *key("d", 1), *key("e", 1))
	missing := job(nil, passed(), *key("d", 1))
	missing.Missing, missing.Resume = true, "rollout resume "+missing.Dir
	running := missing
	running.Running = true
	unverified := job([]string{"sum"}, []result.Trial{{Key: *key("a", 1)}})
	for _, c := range []struct {
		name  string
		in    Input
		width int
	}{
		{"passed", job(nil, passed()), 80},
		{"everything", everything(), 120},
		{"everything-80", everything(), 80},
		{"everything-40", everything(), 40},
		{"cancelled", cancelled, 80},
		{"cancelled-none-left", job(nil, append(passed(), from("cpe", "bench", failure(key("c", 1), result.Cancelled, "the job was cancelled", 3)))), 80},
		{"stopped", stopped, 80},
		{"missing", missing, 80},
		{"running", running, 80},
		{"unverified", unverified, 80},
		{"empty", job(nil, nil), 80},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b strings.Builder
			Write(&b, c.in, false, c.width)
			golden(t, c.name, b.String())
			noEscapes(t, b.String())
			noCommands(t, b.String())
			for line := range strings.Lines(b.String()) {
				line = strings.TrimSuffix(line, "\n")
				if lipgloss.Width(line) > c.width && !regexp.MustCompile("jobs/|docker exec|^note:").MatchString(line) {
					t.Errorf("wider than %d: %q", c.width, line)
				}
			}
		})
	}
}

func TestSummaryInColourHasTheSameText(t *testing.T) {
	var plain, coloured strings.Builder
	Write(&plain, everything(), false, 100)
	Write(&coloured, everything(), true, 100)
	if !strings.Contains(coloured.String(), "\x1b[31m") {
		t.Errorf("no red in\n%q", coloured.String())
	}
	if got := ansi.Strip(coloured.String()); got != plain.String() {
		t.Errorf("got\n%s\nwant\n%s", got, plain.String())
	}
}

func TestSummaryOfHostileResults(t *testing.T) {
	for _, agent := range []string{hostile, "::error::agent", "  ::warning::x"} {
		bad := from(agent, hostile, failure(key(hostile, 1), result.ErrorType(hostile), hostile+strings.Repeat(" ::error::x", 100), 1))
		bad.Environment = &result.Environment{Provider: "docker", ID: "$(reboot)", Preserved: true, Unenforced: []string{hostile},
			Base: &result.Base{Requested: hostile, Actual: hostile, Reason: hostile}}
		bad.Omitted = []result.Omission{{Path: hostile, Reason: hostile}}
		bad.Warnings = []string{hostile}
		in := job(nil, []result.Trial{bad, from(agent, "b", reward(key(hostile, 2), 0.5, 1))})
		in.Job.JobName, in.Dir = hostile, "jobs/"+hostile
		for _, width := range []int{0, 30, 80, 200, 1000} {
			var b strings.Builder
			Write(&b, in, false, width)
			noEscapes(t, b.String())
			noCommands(t, b.String())
			if strings.Contains(b.String(), "docker start") {
				t.Errorf("a hostile identifier became a command:\n%s", b.String())
			}
		}
	}
}

func TestSummaryOfManyTrialsIsShort(t *testing.T) {
	var trials []result.Trial
	for i := range 5000 {
		failed := failure(key("t", i+1), result.VerifierFailed, fmt.Sprint("reason ", i), 1)
		failed.Environment = &result.Environment{Base: &result.Base{Requested: fmt.Sprint("image ", i), Actual: fmt.Sprint("base ", i%10), Reason: "so"}}
		trials = append(trials, from("a", "b", failed), from("a", "b", reward(key("u", i+1), 0, 1)))
	}
	var b strings.Builder
	Write(&b, job(nil, trials), false, 80)
	if n := strings.Count(b.String(), "\n"); n > 80 {
		t.Errorf("%d lines:\n%s", n, b.String())
	}
}

func TestNotesOfLimitsAndBases(t *testing.T) {
	const view = "a copy-on-write view of this machine's root (Debian GNU/Linux 12)"
	on := func(requested, actual, reason string) *result.Base {
		return &result.Base{Requested: requested, Actual: actual, Reason: reason}
	}
	for _, tc := range []struct {
		name string
		envs []result.Environment // of a trial each
		want string
	}{
		{"no note for the image itself with all limits", []result.Environment{{Provider: "docker"}}, ""},
		{"names of limits", []result.Environment{
			{Provider: "sandbox", Unenforced: []string{"cpus", "memory", "storage", "pids"}}, {Provider: "sandbox", Unenforced: []string{"memory"}},
		}, `note: CPU limit not enforced by sandbox (1 trial)
note: memory limit not enforced by sandbox (2 trials)
note: process limit not enforced by sandbox (1 trial)
note: storage limit not enforced by sandbox (1 trial)`},
		{"one image on one base", []result.Environment{{Base: on("python:3.12", view, "docker.io cannot be reached")}, {Base: on("python:3.12", view, "docker.io cannot be reached")}},
			`note: 2 trials did NOT run on the image asked for, but on
  │ a copy-on-write view of this machine's root (Debian GNU/Linux 12)
  │ 2 trials asked for python:3.12 (docker.io cannot be reached)`},
		{"a base that the job asked for is no news", []result.Environment{
			{Base: &result.Base{Requested: "python:3.12", Actual: view, Reason: "base: host", Asked: true}},
			{Base: &result.Base{Requested: "node:22", Actual: view, Reason: "base: host", Asked: true}},
		}, ""},
		{"images and reasons are counted separately", []result.Environment{
			{Base: on("python:3.12", view, "docker.io cannot be reached")}, {Base: on("python:3.12", view, "base: host")},
			{Base: on("node:22", view, "base: host")}, {Base: on("node:22", "something else", "base: host")}, {},
		}, `note: 3 trials did NOT run on the image asked for, but on
  │ a copy-on-write view of this machine's root (Debian GNU/Linux 12)
  │ 1 trial asked for node:22 (base: host)
  │ 1 trial asked for python:3.12 (base: host)
  │ 1 trial asked for python:3.12 (docker.io cannot be reached)
note: 1 trial did NOT run on the image asked for, but on
  │ something else
  │ 1 trial asked for node:22 (base: host)`},
		{"the rest of a long list is counted", []result.Environment{
			{Base: on("i1", "b", "r")}, {Base: on("i2", "b", "r")}, {Base: on("i3", "b", "r")},
			{Base: on("i4", "b", "r")}, {Base: on("i5", "b", "r")}, {Base: on("i6", "b", "r")}, {Base: on("i7", "b", "r")},
		}, `note: 7 trials did NOT run on the image asked for, but on
  │ b
  │ 1 trial asked for i1 (r)
  │ 1 trial asked for i2 (r)
  │ 1 trial asked for i3 (r)
  │ 1 trial asked for i4 (r)
  │ 1 trial asked for i5 (r)
  and 2 more`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var trials []result.Trial
			for i, env := range tc.envs {
				passed := from("a", "b", reward(key("t", i+1), 1, 1))
				passed.Environment = &env
				trials = append(trials, passed)
			}
			s := &summary{trials: byKey(result.PackAll(trials)), width: 100}
			if got := strings.Join(s.notes(), "\n"); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

// There is a total for each agent and no rate over different agents; nop's rewards of 0 are no
// failures.
func TestSummaryTotalsAgents(t *testing.T) {
	var trials []result.Trial
	for _, dataset := range []string{"easy", "hard"} {
		trials = append(trials,
			from("mine", dataset, reward(key("a", 1), 1, 1)), from("mine", dataset, reward(key("b", 1), 0, 3)),
			from("nop", dataset, reward(key("a", 1), 0, 1)), from("nop", dataset, reward(key("b", 1), 1, 1)))
	}
	var out strings.Builder
	Write(&out, job(nil, trials), false, 100)
	for _, want := range []string{
		`(?m)^mine +\(all\) +4 +4 +0 +0 +50.0% +0.500 +2.0s$`,
		`(?m)^nop +\(all\) +4 +4 +0 +0 +50.0% +0.500 +1.0s$`,
		`(?m)^total +8 +8 +0 +0 +– +– +1.5s$`,
		`(?m)^2 trials completed without passing\n +0.0 +jobs/nightly/mine/easy/b__1\n +0.0 +jobs/nightly/mine/hard/b__1\n\n`,
		`(?m)^2 trials of nop passed: `,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("no %s in:\n%s", want, out.String())
		}
	}
}

// Only the first trial of a task waits for its image, so that time is left out.
func TestAverageTimeIsWithoutImages(t *testing.T) {
	first, second := from("mine", "d", reward(key("a", 1), 1, 100)), from("mine", "d", reward(key("a", 2), 1, 4))
	first.Durations.ImageSec, second.Durations.ImageSec = new(98.0), new(0.0)
	var out strings.Builder
	Write(&out, job(nil, []result.Trial{first, second}), false, 100)
	if !regexp.MustCompile(`(?m)^mine .* 3\.0s$`).MatchString(out.String()) {
		t.Errorf("the mean of 2 and 4 seconds is missing:\n%s", out.String())
	}
}

// What judges said explains a reward that is below 1 because of them, and their part of the cost is
// shown.
func TestSummaryOfJudges(t *testing.T) {
	trial := from("mine", "evals", reward(key("letter", 1), 0.625, 1))
	trial.TestsReward, trial.Costs.Judges, trial.Scores = new(1.0), result.Dollars(0.25), map[string]*float64{"quality": new(0.25)}
	trial.Agents = []result.AgentRun{{Name: "quality", Role: result.RoleJudge, Score: new(0.25), Reason: "Too long.\nAnd \x1b[2Jnot polite " + strings.Repeat("at all ", 30)}}
	var b strings.Builder
	Write(&b, job(nil, []result.Trial{trial}), false, 80)
	for _, want := range []string{"\n         judge quality, score 0.25: Too long.", "Judges cost $0.25, which is part of the cost.\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in the summary:\n%s", want, b.String())
		}
	}
	for line := range strings.Lines(b.String()) {
		if strings.Contains(line, "\x1b") || lipgloss.Width(line) > 80 && strings.Contains(line, "polite") {
			t.Errorf("%q", line)
		}
	}
}

func TestCommandsInNotesAreNotBroken(t *testing.T) {
	const command = "rollout resume jobs/a-long-name --baseline jobs/base --junit report.xml"
	s := summary{width: 40}
	want := []string{"Note: 2 tasks look broken and had no", "further attempts. To make them now:", "  " + command}
	if got := s.noteLines("2 tasks look broken and had no further attempts. To make them now: " + command); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
