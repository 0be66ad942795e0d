package reporttest

import (
	"fmt"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
)

// Inputs returns the jobs with golden files for every reporter, by file name.
func Inputs() map[string]report.Input {
	return map[string]report.Input{
		"passing":     Passing(),
		"mixed":       Mixed(),
		"no-baseline": NoBaseline(),
		"incomplete":  Incomplete(),
		"errors":      Errors(),
		"quarantine":  Inconclusive(),
		"shard":       Shard(),
		"confirmed":   Confirmed(),
		"advised":     Advised(),
		"unreachable": Unreachable(),
		"models":      Models(),
		"past":        Past(),
		"steps":       Steps(),
		"empty":       Make("empty", nil),
	}
}

var suite = []string{"baking-order", "broken-links", "clean-exit", "library-fines", "photo-album", "split-the-bill"}

// Passing returns a job in which everything passes, as before.
func Passing() report.Input {
	var specs []Spec
	for i, task := range suite {
		specs = append(specs, Spec{Agent: "apprentice", Dataset: "cookbook", Task: task, Reward: new(1.0), Seconds: 4 + float64(i), Cost: 0.021})
	}
	in := Make("nightly", specs)
	in.Verdict = gate.Verdict{Outcome: gate.Pass, Reason: "No task got worse, and no trial failed.", Checks: []gate.Check{
		{Name: "max_failed_trials", Outcome: gate.Pass, Message: "0 of 6 trials failed; 0 may."},
		{Name: "max_broken_tasks", Outcome: gate.Pass, Message: "0 tasks are broken; 0 may be."},
	}}
	return Against(in, Make("nightly", specs))
}

// pytest holds the files of a verifier that runs separate tests.
var pytest = map[string]string{
	"logs/verifier/stdout.txt": "collected 3 items\n\ntest_fines.py .F.\n\n    def test_sundays():\n>       assert fine(days=3) == 60\nE       assert 90 == 60\n\n1 failed, 2 passed in 0.03s\n",
	"logs/verifier/ctrf.json": `{"results":{"tool":{"name":"pytest"},"summary":{"tests":3,"passed":2,"failed":1},"tests":[
		{"name":"test_weekdays","status":"passed","duration":12},
		{"name":"test_sundays","status":"failed","duration":9,"suite":"test_fines.py","message":"assert 90 == 60"},
		{"name":"test_cap","status":"passed","duration":4}]}}`,
}

// Mixed returns a pull request with two agents and two attempts, compared with a baseline: tasks
// are broken, worse, errored, flaky, fixed, better, new, removed and changed.
func Mixed() report.Input {
	base := []Spec{
		{Task: "baking-order", Reward: new(1.0), Seconds: 30, Cost: 0.10},
		{Task: "broken-links", Reward: new(0.0), Seconds: 41, Cost: 0.12},
		{Task: "clean-exit", Reward: new(1.0), Seconds: 12, Cost: 0.05, Digest: "sha256:old"},
		{Task: "library-fines", Reward: new(1.0), Seconds: 55, Cost: 0.30},
		{Task: "photo-album", Reward: new(1.0), Seconds: 61, Cost: 0.25},
		{Task: "split-the-bill", Reward: new(1.0), Seconds: 20, Cost: 0.08},
		{Task: "tea-time", Reward: new(0.4), Seconds: 20, Cost: 0.08},
		{Task: "old-times", Reward: new(1.0), Seconds: 20, Cost: 0.08},
	}
	head := []Spec{
		{Task: "baking-order", Reward: new(1.0), Seconds: 28, Cost: 0.11},
		{Task: "broken-links", Reward: new(1.0), Seconds: 39, Cost: 0.13},
		{Task: "clean-exit", Reward: new(0.5), Seconds: 12, Cost: 0.05, Digest: "sha256:new", Logs: map[string]string{"logs/verifier/stdout.txt": "exit code 3, want 0\n"}},
		{Task: "library-fines", Reward: new(0.0), Seconds: 75, Cost: 0.41, Logs: pytest},
		{
			Task: "photo-album", Error: result.AgentExecutionTimeout, Message: "the agent exceeded its timeout of 600 seconds: raise agent.timeout_sec in task.toml, or timeout_multiplier in the job",
			Seconds: 612, Cost: 0.92, Logs: map[string]string{"command/stderr.txt": "looking at photo 1 of 9\nlooking at photo 1 of 9\n", "error.txt": "timeout\n"},
		},
		{Task: "split-the-bill", Reward: new(0.75), Seconds: 22, Cost: 0.09, Logs: map[string]string{"logs/verifier/stderr.txt": "the tip is missing\n"}},
		{Task: "tea-time", Reward: new(0.6), Seconds: 18, Cost: 0.07, Logs: map[string]string{"logs/verifier/stdout.txt": "too cold\n"}},
		{Task: "window-box", Reward: new(1.0), Seconds: 33, Cost: 0.09},
	}
	in := Make("pr", both(head))
	in = Against(in, Make("main", both(base)))
	in.Verdict = gate.Verdict{
		Outcome: gate.Fail, Reason: "2 tasks are broken where none may be, and 2 trials failed.", FixedByChance: true,
		Checks: []gate.Check{
			{Name: "max_failed_trials", Outcome: gate.Fail, Value: 2, Message: "2 of 18 trials failed; 0 may.", Hint: "See the errors below, or allow some with max_failed_trials."},
			{Name: "max_broken_tasks", Outcome: gate.Fail, Value: 2, Message: "2 tasks are broken; 0 may be."},
			{
				Name: "max_mean_reward_drop", Agent: "apprentice", Outcome: gate.Inconclusive, Value: 0.21, Limit: 0.05,
				Message: "The mean reward fell by 0.21 (95% confidence: -0.09 to 0.48); 0.05 is allowed. p = 0.13 over 6 tasks.",
				Hint:    "5 attempts for each task would show a drop like this: set n_attempts: 5.",
			},
			{Name: "min_pass_rate", Outcome: gate.Pass, Value: 0.56, Limit: 0.5, Message: "9 of 16 trials passed (56%); 50% is asked for."},
		},
		Notes: []string{"1 task changed since the baseline and is not compared: clean-exit."},
	}
	in.Notes = []string{"4 shards were merged."}
	in.Versus = gate.ContrastAgents(in.Job, []string{"apprentice", "oracle"}, gate.DefaultConfidence)
	return in
}

// both returns the specs for two agents. The second passes all tasks, and tries one of them twice.
func both(specs []Spec) []Spec {
	var all []Spec
	for _, s := range specs {
		s.Agent, s.Dataset = "apprentice", "cookbook"
		all = append(all, s)
	}
	for _, s := range specs {
		s.Agent, s.Dataset, s.Logs, s.Error, s.Message = "oracle", "cookbook", nil, "", ""
		s.Reward, s.Seconds, s.Cost = new(1.0), 3, 0
		all = append(all, s)
	}
	flaky := Spec{Agent: "apprentice", Dataset: "cookbook", Task: "baking-order", Attempt: 2, Reward: new(0.0), Seconds: 31, Cost: 0.1}
	flaky.Logs = map[string]string{"logs/verifier/stdout.txt": "the eggs came first\n"}
	return append(all, flaky)
}

// NoBaseline returns a first run, without a baseline.
func NoBaseline() report.Input {
	in := Make("first", []Spec{
		{Agent: "apprentice", Dataset: "cookbook", Task: "baking-order", Reward: new(1.0), Seconds: 30, Cost: 0.10},
		{Agent: "apprentice", Dataset: "cookbook", Task: "library-fines", Reward: new(2.0 / 3), Seconds: 30, Cost: 0.10, Logs: pytest},
		{Agent: "apprentice", Dataset: "cookbook", Task: "split-the-bill", Seconds: 2},
	})
	in.Baseline = "no run on main has an artifact rollout-result yet, so nothing was compared"
	in.Links = report.Links{}
	in.Verdict = gate.Verdict{
		Outcome: gate.Pass, Uncompared: true, Reason: "1 check passed, 1 had nothing to check",
		Checks: []gate.Check{
			{Name: "max_failed_trials", Outcome: gate.Pass, Message: "no trial failed"},
			{Name: "max_broken_tasks", Outcome: gate.Pass, Skipped: true, Message: "not checked: there is no baseline to compare with"},
		},
	}
	return in
}

// Incomplete returns a job that lacks a shard and was cancelled.
func Incomplete() report.Input {
	in := Make("torn", []Spec{
		{Agent: "apprentice", Dataset: "cookbook", Task: "baking-order", Reward: new(1.0), Seconds: 30},
		{Agent: "apprentice", Dataset: "cookbook", Task: "broken-links", Error: result.Cancelled, Message: "the job was cancelled during agent execution", Seconds: 3},
		{Agent: "apprentice", Dataset: "cookbook", Task: "clean-exit", Missing: true},
		{Agent: "apprentice", Dataset: "cookbook", Task: "clean-exit", Attempt: 2, Missing: true},
		{Agent: "apprentice", Dataset: "cookbook", Task: "photo-album", Missing: true},
	})
	in.Incomplete = []string{"Shard 3 of 4 is missing: 3 trials are unaccounted for.", "The job was cancelled: 1 trial was stopped."}
	in.Verdict = gate.Verdict{Outcome: gate.Fail, Reason: "1 trial failed.", Checks: []gate.Check{
		{Name: "max_failed_trials", Outcome: gate.Fail, Value: 1, Message: "1 of 5 trials failed; 0 may."},
	}}
	return in
}

// Errors returns a job with a trial for each type of error.
func Errors() report.Input {
	kinds := []result.ErrorType{
		result.TaskInvalid, result.TaskNotFound, result.EnvironmentBuildFailed, result.EnvironmentBuildTimeout, result.EnvironmentImagePullFailed,
		result.EnvironmentStartFailed, result.EnvironmentResourceAllocationFailed, result.AgentInstallFailed, result.AgentInstallTimeout,
		result.AgentExecutionFailed, result.AgentExecutionTimeout, result.VerifierFailed, result.VerifierTimeout, result.VerifierRewardMissing,
		result.VerifierRewardInvalid, result.EnvironmentTeardownFailed, result.InternalError, result.EnvironmentLost, result.Cancelled,
	}
	var specs []Spec
	for i, kind := range kinds {
		s := Spec{
			Agent: "apprentice", Dataset: "errors", Task: "task-" + strings.ReplaceAll(string(kind), "_", "-"), Error: kind,
			Message: fmt.Sprintf("something went wrong, kind %d: do something about it", i+1), Seconds: 1.5,
			Logs: logs(map[string]string{
				"setup/stderr.txt": "the end of setup's errors\n", "setup/stdout.txt": "the end of setup's output\n",
				"command/stderr.txt": "the end of the command's errors\n", "command/stdout.txt": "the end of the command's output\n",
				"logs/verifier/stdout.txt": "the end of the verifier's output\n", "logs/verifier/stderr.txt": "the end of the verifier's errors\n",
				"error.txt": "all that is known\n",
			}),
		}
		if kind == result.EnvironmentTeardownFailed {
			s.Reward = new(1.0)
		}
		specs = append(specs, s)
	}
	in := Make("errors", specs)
	in.Verdict = gate.Verdict{Outcome: gate.Fail, Reason: "18 trials failed.", Checks: []gate.Check{
		{Name: "max_failed_trials", Outcome: gate.Fail, Value: 18, Message: "18 of 19 trials failed; 0 may."},
	}}
	return in
}

// Inconclusive returns a job that is too small for a verdict, with a task in quarantine.
func Inconclusive() report.Input {
	base := []Spec{
		{Agent: "apprentice", Dataset: "cookbook", Task: "baking-order", Reward: new(1.0), Seconds: 30},
		{Agent: "apprentice", Dataset: "cookbook", Task: "tea-time", Reward: new(1.0), Seconds: 30},
		{Agent: "apprentice", Dataset: "cookbook", Task: "split-the-bill", Reward: new(0.9), Seconds: 30},
	}
	head := []Spec{base[0], base[1], base[2]}
	head[1].Reward, head[2].Reward = new(0.0), new(0.8)
	in := Against(Make("small", head), Make("main", base))
	in.Verdict = gate.Verdict{
		Outcome: gate.Inconclusive, Reason: "The mean reward fell by 0.05, which 2 tasks cannot tell from chance.",
		Checks: []gate.Check{{
			Name: "max_mean_reward_drop", Outcome: gate.Inconclusive, Value: 0.05, Message: "The mean reward fell by 0.05; p = 0.5 over 2 tasks.",
			Hint: "No drop could be shown by 2 tasks: more tasks, or max_broken_tasks: 0, would help.",
		}},
		WaysOut: []gate.WayOut{
			{Name: "n_attempts", Trials: 6, CostUSD: new(0.126), Text: "n_attempts: 3, here and in the baseline, shows a drop of 0.1 that many tasks share: in each of the two, 6 more trials, about $0.13"},
			{Name: "against", Trials: 3, Text: "--against COMMIT runs the baseline now, with the job, so that neither chance in the old results nor the day decides: 3 more trials, cost unknown"},
			{Name: "on_inconclusive", Text: "on_inconclusive: fail makes every such check red, also those that chance alone explains"},
		},
		Quarantined: []gate.Quarantined{{Dataset: "cookbook", Task: "tea-time", Reason: "flaky since the new kettle, issue 12", Until: "2026-12-31"}},
	}
	return in
}

// Confirmed returns a pull request with five tasks that looked broken and were tried again: one
// failed again, one crashed again, two passed, and one had only attempts that the infrastructure
// ended.
func Confirmed() report.Input {
	var base, head, again []Spec
	add := func(task string, planned Spec, confirmations ...Spec) {
		spec := Spec{Agent: "apprentice", Dataset: "cookbook", Task: task, Reward: new(1.0), Seconds: 30, Cost: 0.1}
		base = append(base, spec)
		spec.Reward, spec.Error, spec.Message, spec.Logs = planned.Reward, planned.Error, planned.Message, planned.Logs
		head = append(head, spec)
		for i, c := range confirmations {
			c.Agent, c.Dataset, c.Task, c.Attempt, c.Seconds, c.Cost = spec.Agent, spec.Dataset, task, i+2, 30, 0.1
			again = append(again, c)
		}
	}
	failed, passed := Spec{Reward: new(0.0)}, Spec{Reward: new(1.0)}
	crashed := Spec{Error: result.AgentExecutionFailed, Message: "the agent's execute script ended with exit code 7"}
	lost := Spec{Error: result.EnvironmentLost, Message: "the environment was lost"}
	add("baking-order", passed)
	add("broken-links", Spec{Reward: new(0.0), Logs: pytest}, failed, crashed, failed, lost)
	add("clean-exit", crashed, crashed, crashed, crashed, crashed)
	add("library-fines", failed, failed, failed, passed)
	add("photo-album", crashed, passed)
	add("split-the-bill", failed, lost, lost, lost, lost)
	in := Make("pr", head)
	all := result.UnpackAll(in.Trials)
	for _, s := range again {
		t := trial(s, in.Now, in.Now.Add(30*time.Second))
		t.Confirmation = true
		all = append(all, t)
	}
	in.Job, in.Groups = result.Summarize(in.Plan, all), result.Groups(in.Plan, all)
	in = Against(in, Make("main", base))
	in.Verdict = gate.Verdict{
		Outcome: gate.Fail, Reason: "3 tasks broke, at most 0 may; 2 more tasks passed when tried again (flaky)",
		Checks: []gate.Check{{Name: "max_broken_tasks", Outcome: gate.Fail, Value: 3, Message: "3 tasks broke, at most 0 may; 1 of them not confirmed; 2 more tasks passed when tried again (flaky)"}},
	}
	in.Notes = []string{"5 tasks looked broken and had 16 further attempts (gate.confirm), which enter no rate and cost $1.60 of the total"}
	return in
}

// Advised returns a job that its gate would fail, and that passes because the gate only advises for
// three more days.
func Advised() report.Input {
	in := Inconclusive()
	in.Policy = gate.Policy{Mode: gate.ModeAdvise, Until: "2026-03-17"}
	in.Verdict = gate.Verdict{
		Outcome: gate.Fail, Advised: true,
		Reason: "1 task broke (passed in every attempt of the baseline, and in none now), at most 0 may; that does not make the check red, because the gate only advises until 2026-03-17 (3 days more)",
		Checks: []gate.Check{{Name: "max_broken_tasks", Outcome: gate.Fail, Value: 1, Message: "1 task broke (passed in every attempt of the baseline, and in none now), at most 0 may"}},
		Notes:  []string{"the gate only advises for 3 days more, until 2026-03-17: from 2026-03-18 on, its verdict decides whether the check is red"},
	}
	return in
}

// Unreachable returns a job whose engine died while four trials ran.
func Unreachable() report.Input {
	var specs []Spec
	for _, task := range suite {
		specs = append(specs, Spec{
			Agent: "apprentice", Dataset: "cookbook", Task: task, Seconds: 10, Error: result.EnvironmentLost,
			Message: "the environment was lost during agent execution: cannot connect to the Docker daemon",
		})
	}
	specs[0].Error, specs[0].Message, specs[0].Reward = "", "", new(1.0)
	specs[1].Error, specs[5].Missing = result.EnvironmentStartFailed, true
	in := Make("nightly", specs)
	ChangeTrials(&in, func(trials []result.Trial) {
		for _, t := range trials {
			if t.Error != nil {
				t.Error.Unreachable = true
			}
		}
	})
	in.Incomplete = []string{"1 of 6 trials never ran or left no result"}
	in.Verdict = gate.Verdict{Outcome: gate.Fail, Reason: "4 of 6 trials failed; 0 may."}
	return in
}

// Shard returns a shard of a job, which has no verdict.
func Shard() report.Input {
	in := Make("parts", []Spec{
		{Agent: "apprentice", Dataset: "cookbook", Task: "baking-order", Reward: new(1.0), Seconds: 30},
		{Agent: "apprentice", Dataset: "cookbook", Task: "broken-links", Missing: true},
	})
	in.Plan.Shard, in.Plan.ShardOf = &result.Shard{Index: 1, Total: 2}, []int{1, 2}
	SetTrials(&in, result.UnpackAll(in.Trials))
	in.Verdict = gate.Verdict{}
	return in
}

// Large returns a job of n trials of one agent: every tenth got worse, every third of the others
// never passed. Logs are long.
func Large(n int) report.Input {
	base, head := make([]Spec, n), make([]Spec, n)
	long := strings.Repeat("a line of a log that goes on and on, as logs do\n", 40)
	for i := range n {
		s := Spec{Agent: "apprentice", Dataset: fmt.Sprintf("set-%d", i%7), Task: fmt.Sprintf("task-%05d-with-a-name-of-some-length", i), Reward: new(1.0), Seconds: 10, Cost: 0.01}
		if i%10 != 0 && i%3 == 0 {
			s.Reward = new(0.0)
		}
		base[i], head[i] = s, s
		if i%10 == 0 {
			head[i].Reward = new(0.0)
		}
		if *head[i].Reward < 1 {
			head[i].Logs = map[string]string{"logs/verifier/stdout.txt": long}
		}
	}
	in := Against(Make("large", head), Make("large", base))
	in.Verdict = gate.Verdict{Outcome: gate.Fail, Reason: fmt.Sprintf("%d tasks are broken.", n/10), Checks: []gate.Check{{Name: "max_broken_tasks", Outcome: gate.Fail, Message: "Too many tasks are broken."}}}
	return in
}
