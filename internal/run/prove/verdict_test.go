package prove_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/prove"
)

func TestVerdicts(t *testing.T) {
	lost, late := failed(result.EnvironmentLost, -1), failed(result.VerifierTimeout, -1)
	for _, c := range []struct {
		name        string
		oracle, nop []result.Trial
		files       map[string]string
		want        prove.Verdict
		rules       string // of the findings
	}{
		{"1 every time, 0 for nothing", reward(1, 1, 1), reward(0), nil, prove.Proven, ""},
		{"a part of 1 for nothing is less than 1", reward(1, 1, 1), reward(0.5), nil, prove.Proven, ""},
		{"nothing ends in an error of the verifier", reward(1, 1, 1), []result.Trial{late}, nil, prove.Proven, ""},
		{"0 every time", reward(0, 0, 0), reward(0), nil, prove.Broken, "oracle-fails"},
		{"never 1", reward(0.5, 0, 0.9), reward(0), nil, prove.Broken, "oracle-fails"},
		{"the solution fails", []result.Trial{failed(result.AgentExecutionFailed, -1), failed(result.AgentExecutionFailed, -1), failed(result.AgentExecutionFailed, -1)}, reward(0), nil, prove.Broken, "oracle-fails"},
		{"one mistake of the verifier is one finding", []result.Trial{failed(result.VerifierFailed, 1), failed(result.VerifierFailed, 1), failed(result.VerifierFailed, 1)}, []result.Trial{failed(result.VerifierFailed, 1)}, nil, prove.Broken, "oracle-fails"},
		{"1 now and then", reward(1, 0, 1), reward(0), nil, prove.Flaky, "flaky"},
		{"too late now and then", append(reward(1, 1), late), reward(0), nil, prove.Flaky, "flaky"},
		{"1 for nothing", reward(1, 1, 1), reward(1), nil, prove.Trivial, "nop-passes"},
		{"1 for nothing alone", reward(0, 0, 0), reward(1), nil, prove.Broken, "nop-passes oracle-fails"},
		{"a lost run says nothing", append(reward(1, 1), lost), reward(0), nil, prove.Unknown, "not-run"},
		{"a lost run hides no failure", append(reward(1, 0), lost), reward(0), nil, prove.Flaky, "flaky not-run"},
		{"a run that is missing", reward(1, 1), reward(0), nil, prove.Unknown, "not-run"},
		{"nothing was not run", reward(1, 1, 1), nil, nil, prove.Unknown, "not-run"},
		{"not verified", reward(1, 1, 1), []result.Trial{{}}, nil, prove.Unknown, "not-run"},
		{"no solution", nil, reward(0), map[string]string{"solution/solve.sh": ""}, prove.NoSolution, "no-solution"},
		{"no solution, and 1 for nothing", nil, reward(1), map[string]string{"solution/solve.sh": ""}, prove.Trivial, "no-solution nop-passes"},
		{"not a task", nil, nil, map[string]string{"instruction.md": ""}, prove.Broken, "task-format"},
		{"the exit code of a failure", reward(1, 1, 1), []result.Trial{failed(result.VerifierFailed, 1)}, nil, prove.Flawed, "exit-code"},
		{"no reward after a failure", reward(1, 1, 1), []result.Trial{failed(result.VerifierRewardMissing, 0)}, nil, prove.Flawed, "reward-missing"},
		{"an exit code that is excused", reward(1, 1, 1), []result.Trial{failed(result.VerifierFailed, 1)},
			map[string]string{"task.toml": "version = \"1.0\"\n[metadata.lint.ignore]\nexit-code = \"made for another harness\"\n"}, prove.Proven, "exit-code"},
		{"a warning does not count", reward(1, 1, 1), reward(0), map[string]string{"environment/Dockerfile": "FROM debian:12\n"}, prove.Proven, "workdir"},
	} {
		t.Run(c.name, func(t *testing.T) {
			runs := prove.Runs{Oracle: c.oracle, Nop: c.nop, OracleWanted: 3, NopWanted: 1}
			verdict, findings := prove.Check(load(t, c.files), runs)
			var rules []string
			for _, f := range findings {
				rules = append(rules, f.Rule)
			}
			slices.Sort(rules)
			if got := strings.Join(rules, " "); verdict != c.want || got != c.rules {
				t.Errorf("got %s with %q, want %s with %q", verdict, got, c.want, c.rules)
			}
			if passed := (prove.TaskReport{Verdict: verdict}).Passed(); passed != (c.want == prove.Proven) {
				t.Errorf("passed is %v", passed)
			}
		})
	}
}

func TestAnInterruptionIsNoErrorOfTasks(t *testing.T) {
	one, none, stopped, lost := new(1.0), new(0.0), result.Trial{Error: &result.Error{Type: result.Cancelled}}, result.Trial{Error: &result.Error{Type: result.EnvironmentLost}}
	report := prove.Report{Cancelled: true}
	for _, c := range []struct {
		oracle, nop []result.Trial
		want        prove.Verdict
		findings    int
	}{
		{[]result.Trial{{Reward: one}}, []result.Trial{{Reward: none}}, prove.Proven, 0},
		{nil, nil, prove.NotRun, 0},
		{[]result.Trial{stopped}, nil, prove.NotRun, 0},
		{[]result.Trial{{Reward: one}}, []result.Trial{stopped}, prove.NotRun, 0},
		{[]result.Trial{{Reward: none}}, nil, prove.Broken, 1},
		{[]result.Trial{lost}, nil, prove.Unknown, 2},
	} {
		runs := prove.Runs{Oracle: c.oracle, Nop: c.nop, OracleWanted: 1, NopWanted: 1, Interrupted: true}
		verdict, findings := prove.CheckRuns(load(t, nil), runs)
		if verdict != c.want || len(findings) != c.findings {
			t.Errorf("%v, %v: got %s with %v, want %s", c.oracle, c.nop, verdict, findings, c.want)
		}
		report.Tasks = append(report.Tasks, prove.TaskReport{Verdict: verdict, Findings: findings})
	}
	const want = "1 of 6 proven, 1 broken, 1 error, 3 not run because of the interruption"
	if got := report.Headline(); !strings.HasPrefix(got, want) || report.Outcome() != prove.Stopped {
		t.Errorf("got %q, %s, want %q", got, report.Outcome(), want)
	}
}

func TestMissingTaskIsBroken(t *testing.T) {
	task := load(t, nil)
	task.Missing = true
	verdict, findings := prove.Check(task, prove.Runs{})
	if verdict != prove.Broken || len(findings) != 1 || findings[0].Place("x") != "x" {
		t.Errorf("got %s, %v", verdict, findings)
	}
}

// Where the format has no meaning for exit codes, a reward counts in spite of one.
func TestExitCodesWithRewards(t *testing.T) {
	three := 3
	with := func(reward float64) prove.Runs {
		return prove.Runs{Oracle: []result.Trial{{Reward: &reward, VerifierExitCode: &three}}, OracleWanted: 1}
	}
	_, findings := prove.Check(load(t, nil), with(1))
	if found := of(findings, "exit-code"); len(found) != 1 || found[0].Severity != prove.Warning {
		t.Errorf("with reward 1: %v", found)
	}
	if _, findings = prove.Check(load(t, nil), with(0)); len(of(findings, "exit-code")) > 0 {
		t.Errorf("with reward 0: %v", findings)
	}
}

func TestTightTimeouts(t *testing.T) {
	for _, c := range []struct {
		agent, verifier float64
		want            int
	}{{490, 10, 1}, {479, 479, 0}, {500, 500, 2}, {4, 4, 0}} {
		runs := prove.Runs{Oracle: reward(1, 1), OracleWanted: 2}
		runs.Oracle[1].Durations.AgentExecutionSec, runs.Oracle[1].Durations.VerifierSec = &c.agent, &c.verifier
		if _, findings := prove.Check(load(t, nil), runs); len(of(findings, "tight-timeout")) != c.want {
			t.Errorf("%v: %v", c, findings)
		}
	}
}

func TestOffline(t *testing.T) {
	fetching := map[string]string{"tests/test.sh": "#!/bin/bash\nuvx pytest\necho 1 > /logs/verifier/reward.txt\n"}
	solve, lost := failed(result.AgentExecutionFailed, -1), failed(result.EnvironmentLost, -1)
	for _, c := range []struct {
		name            string
		oracle, offline []result.Trial
		files           map[string]string
		want            string // rule and file of findings about networks
	}{
		{"works without", reward(1), reward(1), nil, ""},
		{"works without, whatever the script looks like", reward(1), reward(1), fetching, ""},
		{"does not", reward(1), reward(0), fetching, "network tests/test.sh, verifier-network tests/test.sh"},
		{"the solution does not", reward(1), []result.Trial{solve}, nil, "network solution/solve.sh"},
		{"a lost run says nothing", reward(1), []result.Trial{lost}, fetching, "verifier-network tests/test.sh"},
		{"nor does one of a solution that never works", reward(0), reward(0), nil, ""},
		{"nor one of a flaky verifier", reward(1, 0), reward(0), nil, ""},
		{"nobody asked", reward(1), nil, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, findings := prove.Check(load(t, c.files), prove.Runs{Oracle: c.oracle, Offline: c.offline, OracleWanted: len(c.oracle)})
			var got []string
			for _, f := range findings {
				if f.Rule == "network" || f.Rule == "verifier-network" {
					got = append(got, f.Rule+" "+f.File)
				}
			}
			if s := strings.Join(got, ", "); s != c.want {
				t.Errorf("found %q, want %q", s, c.want)
			}
		})
	}
}
