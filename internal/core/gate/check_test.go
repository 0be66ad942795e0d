package gate

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/paired"
	"github.com/org/rollout-action/internal/core/result"
)

var today = time.Date(2026, 3, 14, 23, 0, 0, 0, time.UTC)

// fall returns a baseline in which n tasks passed, and a job in which the first fell of them do
// not.
func fall(n, fell int) (base, head result.Job) {
	var pairs [][2][]float64
	for i := range n {
		v := 1.0
		if i < fell {
			v = 0
		}
		pairs = append(pairs, one(1, v))
	}
	return jobs(pairs...)
}

// verdict compares two jobs and checks the policy.
func verdict(p Policy, base, head result.Job) Verdict {
	diff := result.Compare(base, head)
	return p.Check(head, &diff, today)
}

func find(t *testing.T, v Verdict, name string) Check {
	t.Helper()
	for _, c := range v.Checks {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no check %s in %+v", name, v.Checks)
	return Check{}
}

func TestDrops(t *testing.T) {
	drop := func(limit float64) Policy { return Policy{Thresholds: Thresholds{MaxPassRateDrop: &limit}} }
	ignore := drop(0)
	ignore.Noise = NoiseIgnore
	for _, c := range []struct {
		name        string
		policy      Policy
		tasks, fell int
		want        Outcome
		message     string
		hint        string
	}{
		{"nothing fell", drop(0), 100, 0, Pass, "pass rate stayed at 100.0% (0 points, 90% interval -", ""},
		{"a clear drop", drop(0), 100, 10, Fail, "pass rate fell from 100.0% to 90.0% (-10.0 points, 90% interval -15.", "four of five runs is"},
		{"a clear drop that is allowed", drop(0.2), 100, 10, Pass, "within the limit of 20.0 points", ""},
		{"exactly what is allowed", drop(0.1), 100, 10, Pass, "within the limit of 10.0 points", ""},
		{"a clear drop above the limit", drop(0.05), 100, 10, Fail, "on 100 tasks; chance alone does that in less than 0.1% of runs, and the limit is 5.0 points", ""},
		{"a drop that may be chance", drop(0.01), 100, 3, Inconclusive, "chance alone does that in 6.3% of runs, so this suite cannot tell it from chance", " in both jobs would show one of 2.0 points that many tasks share"},
		{"four tasks are enough for a total loss", drop(0), 4, 4, Fail, "chance alone does that in 3.1% of runs", ""},
		{"three are not", drop(0), 3, 3, Inconclusive, "chance alone does that in 6.3% of runs", "3 tasks can show no drop, however large"},
		{"noise is ignored", ignore, 4, 1, Fail, "pass rate fell from 100.0% to 75.0% (-25.0 points) on 4 tasks", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			base, head := fall(c.tasks, c.fell)
			v := verdict(c.policy, base, head)
			got := find(t, v, "max_pass_rate_drop")
			if got.Outcome != c.want || v.Outcome != c.want {
				t.Errorf("%s, verdict %s, want %s", got.Outcome, v.Outcome, c.want)
			}
			if !strings.Contains(got.Message, c.message) || !strings.Contains(got.Hint, c.hint) {
				t.Errorf("%s\n(%s)\nwant %s (%s)", got.Message, got.Hint, c.message, c.hint)
			}
			if c.want != Pass && v.Reason != got.Message {
				t.Errorf("reason %s", v.Reason)
			}
			if want := float64(c.fell) / float64(c.tasks); math.Abs(got.Value-want) > 1e-12 {
				t.Errorf("value %v, want %v", got.Value, want)
			}
			if c.policy.Noise == NoiseIgnore {
				return
			}
			if got.Test == nil || got.Test.Tasks != c.tasks || got.Test.Method != paired.MethodMcNemar || got.Test.Tests != 1 {
				t.Errorf("test %+v", got.Test)
			}
			if above0 := got.Test.Low > 0; above0 && got.Test.P > 0.05 || !above0 && got.Test.P <= 0.05 {
				t.Errorf("p is %v, and the interval begins at %v", got.Test.P, got.Test.Low)
			}
		})
	}
}

func TestOnInconclusive(t *testing.T) {
	base, head := fall(100, 2)
	p := Policy{Thresholds: Thresholds{MaxPassRateDrop: new(0.0)}}
	const why = "it fails all the same, because on_inconclusive is fail"
	if v := verdict(p, base, head); v.Outcome != Inconclusive || !v.Passed(p) || strings.Contains(v.Reason, why) {
		t.Errorf("%s, passed %v: %s", v.Outcome, v.Passed(p), v.Reason)
	}
	p.OnInconclusive = Fail
	if v := verdict(p, base, head); v.Outcome != Inconclusive || v.Passed(p) || !strings.Contains(v.Reason, why) {
		t.Errorf("%s, passed %v: %s", v.Outcome, v.Passed(p), v.Reason)
	}
}

// TestManyDrops: with several drops each has to be clearer, unless they are on the same numbers.
func TestManyDrops(t *testing.T) {
	base, head := fall(20, 4) // p 1/32
	same := Policy{Thresholds: Thresholds{MaxPassRateDrop: new(0.0), MaxMeanRewardDrop: new(0.0)}}
	if v := verdict(same, base, head); v.Outcome != Fail || v.Checks[1].Test.Tests != 1 || v.Checks[2].Outcome != Fail {
		t.Errorf("pass rate and mean reward of passes count as one test: %+v", v)
	}
	addTask(&base, "b", "d", "other", 0.5)
	addTask(&head, "b", "d", "other", 0.25)
	groups := Policy{Groups: []Group{
		{Agent: "a", Thresholds: Thresholds{MaxPassRateDrop: new(0.0)}},
		{Agent: "b", Thresholds: Thresholds{MaxMeanRewardDrop: new(0.0)}},
	}}
	if c := find(t, verdict(groups, base, head), "max_pass_rate_drop"); c.Outcome != Fail || c.Test.Adjusted != c.Test.P {
		t.Errorf("a test of one task can show nothing, so it costs the other nothing: %+v", c.Test)
	}
	for i := range 4 {
		addTask(&base, "b", "d", fmt.Sprint("other", i), 0.5)
		addTask(&head, "b", "d", fmt.Sprint("other", i), 0.25)
	}
	v := verdict(groups, base, head)
	c := find(t, v, "max_pass_rate_drop")
	// Four of four passes fall in 1 of 16 flips, half of which count, or all rewards do in 1 of 32.
	if c.Outcome != Inconclusive || c.Test.Tests != 2 || math.Abs(c.Test.Adjusted-(1./32+31./32/32)) > 1e-12 || c.Agent != "a" || c.Test.Low > 0 {
		t.Errorf("%+v %+v", c, c.Test)
	}
	if !strings.Contains(c.Message, "3.1% of runs (6.2% when 2 checks are tested)") || !strings.HasPrefix(v.Reason, "agent a: pass rate fell") || !strings.HasSuffix(v.Reason, "; and 1 check besides") {
		t.Errorf("%s\n%s", c.Message, v.Reason)
	}
	if share(c.Test.IntervalConfidence) != "93.8%" {
		t.Errorf("interval of %v", c.Test.IntervalConfidence)
	}
}

func TestPlainThresholds(t *testing.T) {
	base, head := fall(10, 3)
	addErrors(&head, "a", "d", "t0000", 1)
	failures(&head, "t0000", result.EnvironmentLost, result.VerifierFailed)
	head.TotalDurationSec = 100
	for _, c := range []struct {
		name    string
		policy  Thresholds
		check   string
		want    Outcome
		value   float64
		message string
	}{
		{"the pass rate is met", Thresholds{MinPassRate: new(0.7)}, "min_pass_rate", Pass, 0.7, "pass rate 70.0% (7 of 10 trials; 95% interval 39.7% to 89.2%), at least 70.0% is asked for"},
		{"the pass rate is missed", Thresholds{MinPassRate: new(0.71)}, "min_pass_rate", Fail, 0.7, ""},
		{"the mean reward is met", Thresholds{MinMeanReward: new(0.7)}, "min_mean_reward", Pass, 0.7, "mean reward 0.7 over 10 trials, at least 0.7 is asked for"},
		{"the mean reward is missed", Thresholds{MinMeanReward: new(0.8)}, "min_mean_reward", Fail, 0.7, ""},
		{"no trial may fail unless it says so", Thresholds{}, "max_failed_trials", Fail, 2, "2 of 13 trials have no verdict, none may; 1 more was lost by the agent"},
		{"some may fail", Thresholds{MaxFailedTrials: new(2)}, "max_failed_trials", Pass, 2, "2 of 13 trials have no verdict, 2 may"},
		{"fewer may fail", Thresholds{MaxFailedTrials: new(1)}, "max_failed_trials", Fail, 2, "2 of 13 trials have no verdict, 1 may"},
		{"any number may fail", Thresholds{MaxFailedTrials: new(-1)}, "max_failed_trials", Pass, 2, "any number may"},
		{"the pass rate of all trials is met", Thresholds{MinPassRateAll: new(0.5)}, "min_pass_rate_all", Pass, 7. / 13, "pass rate over all planned trials 53.8% (7 of 13), at least 50.0% is asked for"},
		{"the pass rate of all trials is missed", Thresholds{MinPassRateAll: new(0.6)}, "min_pass_rate_all", Fail, 7. / 13, ""},
		{"as many broke as may", Thresholds{MaxBrokenTasks: new(3)}, "max_broken_tasks", Pass, 3, "3 tasks broke"},
		{"more broke, but not more than chance explains", Thresholds{MaxBrokenTasks: new(0)}, "max_broken_tasks", Inconclusive, 3, "at most 0 may; chance alone does that in 6.3% of runs"},
		{"it costs as much as it may", Thresholds{MaxCostUSD: new(5.0)}, "max_cost_usd", Pass, 5, "the trials cost $5.00, at most $5.00 is allowed"},
		{"it costs more", Thresholds{MaxCostUSD: new(4.99)}, "max_cost_usd", Fail, 5, ""},
		{"it takes as long as it may", Thresholds{MaxDurationSec: new(100.0)}, "max_duration_sec", Pass, 100, "the job took 100 s, at most 100 s is allowed"},
		{"it takes longer", Thresholds{MaxDurationSec: new(99.5)}, "max_duration_sec", Fail, 100, "at most 99.5 s is allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := verdict(Policy{Thresholds: c.policy}, base, head)
			got := find(t, v, c.check)
			if got.Outcome != c.want || math.Abs(got.Value-c.value) > 1e-9 || !strings.Contains(got.Message, c.message) {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestRoundingBreaksNoLimit(t *testing.T) {
	var head result.Job
	addTask(&head, "a", "d", "t", 0.1, 0.1, 0.1)
	for i := range head.Results.Len() {
		head.Results.Change(i, func(o *result.Outcome) { o.Cost = result.Dollars(0.1) })
	}
	p := Policy{Thresholds: Thresholds{MaxCostUSD: new(0.3), MinMeanReward: new(0.1)}}
	if v := p.Check(head, nil, today); v.Outcome != Pass {
		t.Errorf("%+v", v)
	}
}

func TestCostLimitWithoutReportedCosts(t *testing.T) {
	limit := Policy{Thresholds: Thresholds{MaxCostUSD: new(0.5)}}
	head := result.Job{Results: result.OutcomesOf([]result.Outcome{{Key: result.Key{Agent: "a", Dataset: "d", Task: "t", Attempt: 1}, Reward: new(1.0)}}...)}
	for _, c := range []struct {
		cost    result.USD
		outcome Outcome
		message string
	}{
		{result.USD{}, Pass, "no trial has reported its cost, at most $0.50 is allowed"},
		{result.Dollars(0), Pass, "the trials cost $0.00, at most $0.50 is allowed"},
		{result.Dollars(0.51), Fail, "the trials cost $0.51, at most $0.50 is allowed"},
	} {
		head.Results.Change(0, func(o *result.Outcome) { o.Cost = c.cost })
		v := limit.Check(head, nil, time.Time{})
		i := slices.IndexFunc(v.Checks, func(c Check) bool { return c.Name == "max_cost_usd" })
		if i < 0 || v.Checks[i].Outcome != c.outcome || v.Checks[i].Message != c.message {
			t.Errorf("%v: %+v", c.cost, v.Checks)
		}
	}
}

func TestGroups(t *testing.T) {
	var head result.Job
	addTask(&head, "good", "d", "t", 1, 1)
	addTask(&head, "bad", "d", "t", 0, 0)
	addTask(&head, "bad", "e", "t", 1)
	head.TotalDurationSec = 3
	p := Policy{Groups: []Group{
		{Agent: "g*", Thresholds: Thresholds{MinPassRate: new(1.0), MaxDurationSec: new(4.0), MaxFailedTrials: new(0)}},
		{Dataset: "d", Thresholds: Thresholds{MinPassRate: new(0.6), MaxCostUSD: new(1.0)}},
		{Agent: "bad", Dataset: "[e]", Thresholds: Thresholds{MinMeanReward: new(1.0)}},
	}}
	v := p.Check(head, nil, today)
	var got []string
	for _, c := range v.Checks {
		got = append(got, c.Agent+"|"+c.Dataset+"|"+c.Name+"|"+string(c.Outcome))
	}
	want := "||max_failed_trials|pass g*||min_pass_rate|pass g*||max_failed_trials|pass g*||max_duration_sec|pass " +
		"|d|min_pass_rate|fail |d|max_cost_usd|fail bad|[e]|min_mean_reward|pass"
	if strings.Join(got, " ") != want {
		t.Errorf("checks %s\nwant   %s", strings.Join(got, " "), want)
	}
	if !strings.HasPrefix(v.Reason, "dataset d: pass rate 50.0%") || !strings.HasSuffix(v.Reason, "; and 1 check besides") {
		t.Errorf("reason %s", v.Reason)
	}
}

// TestBrokenTasks: they count if more broke than chance explains, given those that were fixed; with
// noise: ignore each one counts.
func TestBrokenTasks(t *testing.T) {
	tested := Policy{Thresholds: Thresholds{MaxBrokenTasks: new(0)}}
	confirming, ignoring := tested, tested
	confirming.Confirm.Attempts = 4
	ignoring.Noise = NoiseIgnore
	for _, c := range []struct {
		name         string
		policy       Policy
		broke, fixed int
		want         Outcome
		message      string
		hint         string
	}{
		{"none", tested, 0, 2, Pass, "0 tasks broke (passed in every attempt of the baseline, and in none now) and 2 were fixed, at most 0 may", ""},
		{"a flip of one task is no evidence", tested, 1, 0, Inconclusive, "chance alone does that in 25.0% of runs", "it takes 4 broken tasks to be more than chance; gate.confirm: {attempts: 4} tries"},
		{"as many were fixed", tested, 5, 5, Inconclusive, "5 tasks broke (passed in every attempt of the baseline, and in none now) and 5 were fixed", "it takes 12 broken tasks to be more than chance when 5 were fixed"},
		{"more broke than were fixed", tested, 6, 1, Fail, "and 1 was fixed, at most 0 may; chance alone does that in 3.5% of runs", "gate.confirm"},
		{"none was fixed", tested, 4, 0, Fail, "chance alone does that in 3.1% of runs", "gate.confirm"},
		{"they are not confirmed", confirming, 4, 0, Fail, "4 of them not confirmed", "it takes 4 broken tasks"},
		{"without a test each one counts", ignoring, 1, 5, Fail, "1 task broke (passed in every attempt of the baseline, and in none now) and 5 were fixed, at most 0 may", "gate.confirm"},
	} {
		t.Run(c.name, func(t *testing.T) {
			base, head := fall(20, c.broke)
			for i := range c.fixed {
				addTask(&base, "a", "d", fmt.Sprintf("u%d", i), 0)
				addTask(&head, "a", "d", fmt.Sprintf("u%d", i), 1)
			}
			got := find(t, verdict(c.policy, base, head), "max_broken_tasks")
			if got.Outcome != c.want || !strings.Contains(got.Message, c.message) || !strings.Contains(got.Hint, c.hint) || got.Value != float64(c.broke) {
				t.Errorf("%s\n%s\n(%s)", got.Outcome, got.Message, got.Hint)
			}
		})
	}
}

// TestFailedTrials: a trial that the agent lost is no failure of the check; one without a verdict
// is.
func TestFailedTrials(t *testing.T) {
	base, _ := fall(10, 0)
	for _, c := range []struct {
		name    string
		errors  []result.ErrorType
		limit   *int
		want    Outcome
		message string
	}{
		{"the agent took too long", []result.ErrorType{result.AgentExecutionTimeout, result.AgentExecutionFailed}, nil, Pass, "none of 12 trials ended without a verdict; 2 were lost by the agent, which failed or took too long"},
		{"the agent could not be installed", []result.ErrorType{result.AgentInstallFailed}, nil, Fail, "1 of 11 trials has no verdict, none may"},
		{"the verifier", []result.ErrorType{result.VerifierRewardMissing}, nil, Fail, "1 of 11 trials has no verdict, none may"},
		{"the task", []result.ErrorType{result.TaskInvalid}, nil, Fail, "1 of 11 trials has no verdict, none may"},
		{"the infrastructure", []result.ErrorType{result.EnvironmentStartFailed, result.Cancelled}, nil, Fail, "2 of 12 trials have no verdict (1 of them cancelled), none may"},
		{"a cancel", []result.ErrorType{result.Cancelled, result.Cancelled}, nil, Fail, "2 of 12 trials have no verdict (cancelled), none may"},
		{"a cancel that may be", []result.ErrorType{result.Cancelled}, new(1), Pass, "1 of 11 trials has no verdict (cancelled), 1 may"},
		{"as many as may", []result.ErrorType{result.EnvironmentStartFailed, result.AgentExecutionFailed}, new(1), Pass, "1 of 12 trials has no verdict, 1 may; 1 more was lost by the agent, which failed or took too long"},
	} {
		t.Run(c.name, func(t *testing.T) {
			head := base
			head.Results = base.Results.Clone()
			failures(&head, "t0000", c.errors...)
			v := (Policy{Thresholds: Thresholds{MaxFailedTrials: c.limit}}).Check(head, nil, today)
			if got := find(t, v, "max_failed_trials"); got.Outcome != c.want || got.Message != c.message {
				t.Errorf("%s: %s", got.Outcome, got.Message)
			} else if onlyCancelled := !slices.ContainsFunc(c.errors, func(e result.ErrorType) bool { return e != result.Cancelled }); onlyCancelled && strings.Contains(got.Hint, "infrastructure") {
				t.Errorf("the hint of a cancel is %q", got.Hint)
			}
		})
	}
	t.Run("an oracle that fails has a broken task", func(t *testing.T) {
		var head result.Job
		addTask(&head, "oracle", "d", "fine", 1)
		addErrors(&head, "oracle", "d", "broken", 1)
		if got := find(t, (Policy{}).Check(head, nil, today), "max_failed_trials"); got.Outcome != Fail {
			t.Errorf("%s: %s", got.Outcome, got.Message)
		}
	})
	t.Run("an agent that loses everything was probably not able to run", func(t *testing.T) {
		head := base
		head.Results = base.Results.Clone()
		addErrors(&head, "b", "d", "t0000", 1)
		addErrors(&head, "b", "d", "t0001", 1)
		got := find(t, (Policy{}).Check(head, nil, today), "max_failed_trials")
		if got.Outcome != Fail || !strings.HasSuffix(got.Message, "; but no trial of agent b has a reward") {
			t.Errorf("%s: %s", got.Outcome, got.Message)
		}
		got = find(t, (Policy{Thresholds: Thresholds{MaxFailedTrials: new(-1)}}).Check(head, nil, today), "max_failed_trials")
		if got.Outcome != Pass {
			t.Errorf("%s: %s", got.Outcome, got.Message)
		}
	})
}

// TestCrashesAreDrops: tasks that passed three of three attempts and now time out in two of them,
// with failures allowed.
func TestCrashesAreDrops(t *testing.T) {
	var base, head result.Job
	for i := range 60 {
		task := fmt.Sprintf("t%04d", i)
		addTask(&base, "a", "d", task, 1, 1, 1)
		addTask(&head, "a", "d", task, 1)
		failures(&head, task, result.AgentExecutionTimeout, result.VerifierRewardMissing)
	}
	addTask(&base, "a", "d", "lost", 1, 1, 1)
	addTask(&head, "a", "d", "lost", 1, 1)
	failures(&head, "lost", result.EnvironmentLost)
	p := Policy{Thresholds: Thresholds{MaxPassRateDrop: new(0.05), MaxMeanRewardDrop: new(0.05), MaxFailedTrials: new(-1)}}
	v := verdict(p, base, head)
	for _, name := range []string{"max_pass_rate_drop", "max_mean_reward_drop"} {
		c := find(t, v, name)
		if c.Outcome != Fail || math.Abs(c.Value-40./61) > 1e-9 {
			t.Errorf("%+v", c)
		}
		if !strings.Contains(c.Message, "on 61 tasks (with 120 trials that the agent, the verifier or a judge ended without a reward, counted as 0, and 1 trial that other errors ended, left out)") {
			t.Error(c.Message)
		}
	}
	// Errors of the infrastructure are no drop, however many: their own limit is for them.
	base, head = fall(10, 0)
	for i := range 5 {
		head.Results.Change(i, func(o *result.Outcome) { o.Reward, o.Error = nil, result.EnvironmentStartFailed })
	}
	v = verdict(p, base, head)
	if c := find(t, v, "max_pass_rate_drop"); c.Outcome != Pass || c.Value != 0 || !strings.Contains(strings.Join(v.Notes, "\n"), "5 tasks that now have only errors of the infrastructure or the task") {
		t.Errorf("%+v %v", c, v.Notes)
	}
}

// TestNothingToCheck: the message of a threshold that was not checked gives the reason, and a job
// without trials never passes.
func TestNothingToCheck(t *testing.T) {
	base, head := fall(5, 0)
	all := Thresholds{
		MinPassRate: new(0.0), MinPassRateAll: new(0.0), MinMeanReward: new(0.0), MaxFailedTrials: new(9), MaxPassRateDrop: new(1.0),
		MaxMeanRewardDrop: new(1.0), MaxBrokenTasks: new(9), MaxCostUSD: new(9.0), MaxDurationSec: new(9.0),
	}
	v := verdict(Policy{Groups: []Group{{Agent: "no-such-*", Thresholds: all}}}, base, head)
	if v.Outcome != Pass || len(v.Checks) != 10 {
		t.Fatalf("%+v", v)
	}
	for _, c := range v.Checks[1:] {
		if !c.Skipped || !strings.Contains(c.Message, "no trials of the group") {
			t.Errorf("%+v", c)
		}
	}
	if v := (Policy{Thresholds: all}).Check(result.Job{}, nil, today); v.Outcome != Fail || len(v.Checks) != 9 {
		t.Errorf("a job without trials: %+v", v)
	}
	if v := (Policy{}).Check(result.Job{}, nil, today); v.Outcome != Fail || !strings.Contains(v.Reason, "the job has no trials") {
		t.Errorf("a job without trials, and without thresholds: %+v", v)
	}
	var failed result.Job
	addErrors(&failed, "a", "d", "t", 3)
	p := Policy{Thresholds: Thresholds{MinPassRate: new(0.0), MaxFailedTrials: new(-1)}}
	if v := p.Check(failed, nil, today); v.Outcome != Fail || !strings.Contains(v.Reason, "no trial has a reward") {
		t.Errorf("without any reward: %+v", v)
	}
}

// TestRemovedTasksAreNoted: a pull request that removes the tasks that it fails must not look like
// one that fails none.
func TestRemovedTasksAreNoted(t *testing.T) {
	base, head := fall(5, 2)
	head.Results = head.Results.Without(firstOf(2))
	v := verdict(Policy{Thresholds: Thresholds{MaxBrokenTasks: new(0)}}, base, head)
	if !strings.Contains(strings.Join(v.Notes, "\n"), "2 tasks of the baseline that this job does not have: not part of any drop") {
		t.Errorf("%+v", v)
	}
}

func TestNoBaseline(t *testing.T) {
	_, head := fall(5, 5)
	p := Policy{Thresholds: Thresholds{MaxPassRateDrop: new(0.0), MaxMeanRewardDrop: new(0.0), MaxBrokenTasks: new(0)}}
	v := p.Check(head, nil, today)
	if v.Outcome != Pass || !v.Uncompared || len(v.Notes) > 0 || v.Reason != "1 check passed, 3 had nothing to check" {
		t.Errorf("%+v", v)
	}
	for _, c := range v.Checks[1:] {
		if !c.Skipped || c.Message != "not checked: there is no baseline to compare with" {
			t.Errorf("%+v", c)
		}
	}
	base, head := fall(3, 3)
	for i := range head.Results.Len() {
		head.Results.Change(i, func(o *result.Outcome) { o.TaskDigest = "sha256:2" })
	}
	v = verdict(p, base, head)
	if c := find(t, v, "max_pass_rate_drop"); !c.Skipped || !v.Uncompared || v.Outcome != Pass || !strings.Contains(strings.Join(v.Notes, "\n"), "3 tasks whose files changed: not part of any drop") {
		t.Errorf("%+v", v)
	}
}

// on_no_baseline: fail makes the checks fail that have nothing to compare with, and only those.
func TestOnNoBaseline(t *testing.T) {
	base, head := fall(5, 5)
	changed := head
	changed.Results = head.Results.Clone()
	for i := range changed.Results.Len() {
		changed.Results.Change(i, func(o *result.Outcome) { o.TaskDigest = "sha256:2" })
	}
	score := map[string]ScoreLimits{"quality": {MaxDrop: new(0.1)}}
	all := Thresholds{MaxPassRateDrop: new(1.0), MaxMeanRewardDrop: new(1.0), MaxBrokenTasks: new(9), MaxCostIncrease: new(1.0), Scores: score}
	plain := Thresholds{MinPassRate: new(0.0), MaxCostUSD: new(9.0)}
	none := func(p Policy) Verdict { return p.Check(head, nil, today) }
	for _, tc := range []struct {
		name       string
		limits     Thresholds
		check      func(Policy) Verdict
		failed     int
		uncompared bool
	}{
		{"all limits that compare, without a baseline", all, none, 5, true},
		{"limits that compare nothing, without a baseline", plain, none, 0, false},
		{"a baseline whose tasks have all changed", all, func(p Policy) Verdict { return verdict(p, base, changed) }, 5, true},
		{"a baseline of the same tasks", Thresholds{MaxPassRateDrop: new(1.0)}, func(p Policy) Verdict { return verdict(p, base, head) }, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := Policy{Thresholds: tc.limits, OnNoBaseline: Fail}
			v := tc.check(p)
			failed := 0
			for _, c := range v.Checks {
				if c.Outcome == Fail && strings.Contains(c.Message, "on_no_baseline is fail") && c.Hint != "" && !c.Skipped {
					failed++
				}
			}
			if failed != tc.failed || v.Uncompared != tc.uncompared || v.Passed(p) != (tc.failed == 0) {
				t.Errorf("%d checks failed for want of a baseline; want %d: %+v", failed, tc.failed, v)
			}
			p.OnNoBaseline = Pass
			if v := tc.check(p); !v.Passed(p) || v.Uncompared != tc.uncompared {
				t.Errorf("with on_no_baseline: pass: %+v", v)
			}
		})
	}
}

func TestQuarantine(t *testing.T) {
	base, head := fall(10, 2)
	addErrors(&head, "a", "d", "t0001", 1)
	strict := Thresholds{
		MinPassRate: new(1.0), MinMeanReward: new(1.0), MaxPassRateDrop: new(0.0), MaxBrokenTasks: new(0),
		MaxMeanRewardDrop: new(0.0), MaxCostUSD: new(5.0),
	}
	hold := func(q ...Quarantine) Verdict { return verdict(Policy{Thresholds: strict, Quarantine: q}, base, head) }

	v := hold(Quarantine{Task: "t000[01]", Reason: "issue 7", Until: "2026-03-14"})
	if v.Outcome != Pass {
		t.Errorf("%+v", v)
	}
	if len(v.Quarantined) != 2 || v.Quarantined[1] != (Quarantined{Dataset: "d", Task: "t0001", Reason: "issue 7", Until: "2026-03-14"}) {
		t.Errorf("quarantined %+v", v.Quarantined)
	}
	if c := find(t, v, "max_cost_usd"); c.Value != 5 {
		t.Errorf("what is in quarantine costs all the same: %v", c.Value)
	}
	if c := find(t, v, "max_pass_rate_drop"); c.Test.Tasks != 8 {
		t.Errorf("%d tasks compared, want 8", c.Test.Tasks)
	}
	if c := find(t, v, "max_failed_trials"); c.Message != "none of 8 trials ended without a verdict" {
		t.Error(c.Message)
	}

	v = hold(Quarantine{Task: "t000?", Reason: "issue 7", Until: "2026-03-13"})
	if v.Outcome != Fail || len(v.Quarantined) != 0 || !strings.Contains(strings.Join(v.Notes, "\n"), `"t000?" (issue 7) ended on 2026-03-13: its tasks are gated again`) {
		t.Errorf("one that ran out: %+v", v)
	}
	v = hold(Quarantine{Task: "t000[01]", Dataset: "e*", Reason: "r", Until: "2027-01-01"})
	if v.Outcome != Fail || !strings.Contains(strings.Join(v.Notes, "\n"), "matches no task of this job") {
		t.Errorf("one for another dataset: %+v", v)
	}
	v = hold(Quarantine{Task: "*", Reason: "r", Until: "2027-01-01"})
	if v.Outcome != Pass || len(v.Quarantined) != 10 {
		t.Errorf("all: %+v", v)
	}
	for _, c := range v.Checks {
		if c.Name != "max_failed_trials" && c.Name != "max_cost_usd" && !c.Skipped {
			t.Errorf("%+v", c)
		}
	}
	if v := hold(Quarantine{Task: "*", Reason: "r", Until: "soon"}); v.Outcome != Fail {
		t.Errorf("a day that cannot be read: %+v", v)
	}
}

// TestSmallSuitesAreNoted: the note appears even if nothing fell, because a green check would hide
// that the suite is too small.
func TestSmallSuitesAreNoted(t *testing.T) {
	p := Policy{Thresholds: Thresholds{MaxPassRateDrop: new(0.05)}}
	base, head := fall(3, 0)
	v := verdict(p, base, head)
	if notes := strings.Join(v.Notes, "\n"); v.Outcome != Pass || !strings.Contains(notes, "3 tasks can show no drop") || !strings.Contains(notes, "noise: ignore") {
		t.Errorf("%+v", v)
	}
	base, head = fall(100, 0)
	if v := verdict(p, base, head); len(v.Notes) != 0 {
		t.Errorf("a hundred tasks are enough: %q", v.Notes)
	}
}

// TestOddRewardsDoNotBreakTheVerdict: whatever a verifier reports, the verdict is valid JSON.
func TestOddRewardsDoNotBreakTheVerdict(t *testing.T) {
	p := Policy{Thresholds: Thresholds{
		MinPassRate: new(0.1), MinMeanReward: new(-1.0), MaxPassRateDrop: new(0.0), MaxMeanRewardDrop: new(0.0), MaxBrokenTasks: new(0),
	}, Groups: []Group{{Agent: "[", Thresholds: Thresholds{MaxMeanRewardDrop: new(0.0)}}}}
	big := math.MaxFloat64
	for name, pairs := range map[string][][2][]float64{
		"huge":     {one(big, -big), one(big, big), {{big, big, big}, {-big, -big}}},
		"negative": {one(-1, -2), one(0, -3)},
		"tiny":     {one(5e-324, 0), one(0, 5e-324)},
		"one task": {one(0.5, 0.4)},
		"equal":    {{{0.1, 0.1, 0.1}, {0.1}}},
		"many":     many(200),
	} {
		t.Run(name, func(t *testing.T) {
			base, head := jobs(pairs...)
			v := verdict(p, base, head)
			if text, err := json.Marshal(v); err != nil || strings.Contains(string(text), "NaN") {
				t.Errorf("%v: %s", err, text)
			}
		})
	}
}

// TestATaskThatNowEndsInErrorsCountsAsBroken: a task that passed in every attempt and now ends with
// errors alone has no attempt that passes.
func TestATaskThatNowEndsInErrorsCountsAsBroken(t *testing.T) {
	base, head := fall(5, 0)
	for i := range head.Results.Len() {
		head.Results.Change(i, func(o *result.Outcome) { o.Reward, o.Error = nil, result.AgentExecutionFailed })
	}
	head.FailedTrials = head.Results.Len()
	c := find(t, verdict(Policy{Thresholds: Thresholds{MaxBrokenTasks: new(0), MaxFailedTrials: new(-1)}}, base, head), "max_broken_tasks")
	if c.Outcome != Fail || c.Value != 5 || !strings.Contains(c.Message, "5 of them for errors alone") {
		t.Errorf("%+v", c)
	}
}

// A job without any trial that ended without a verdict says so in words, also a job of one trial.
func TestNoTrialWithoutAVerdict(t *testing.T) {
	for planned, want := range map[int]string{1: "no trial ended without a verdict", 3: "none of 3 trials ended without a verdict"} {
		if got := noneWithout(planned); got != want {
			t.Errorf("of %d: %q, want %q", planned, got, want)
		}
	}
}

// TestReusedTrialsSpendNothing: costs and times of reused trials are those of the job that ran
// them.
func TestReusedTrialsSpendNothing(t *testing.T) {
	_, head := jobs([2][]float64{nil, {1, 1}}, [2][]float64{nil, {1, 1}})
	for i := range head.Results.Len() {
		head.Results.Change(i, func(o *result.Outcome) { o.JudgeCost, o.Reused = result.Dollars(0.25), o.Attempt == 1 })
	}
	one := 1.0
	p := Policy{Groups: []Group{{Agent: "a", Thresholds: Thresholds{MaxCostUSD: &one, MaxJudgeCostUSD: &one, MaxDurationSec: &one}}}}
	v := p.Check(head, nil, time.Time{})
	for name, want := range map[string]float64{"max_cost_usd": 1, "max_judge_cost_usd": 0.5, "max_duration_sec": 4} {
		if got := find(t, v, name).Value; got != want {
			t.Errorf("%s is checked for %g, not %g", name, got, want)
		}
	}
}
