package result

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

func confirming(t Trial) Trial {
	t.Confirmation = true
	return t
}

// TestConfirmationsCountInNoRate: they count in the cost and the time, and nowhere else.
func TestConfirmationsCountInNoRate(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	plan := Plan{JobName: "j", StartedAt: start, Metrics: []string{"sum", "max"}, Trials: KeysOf(key("a", "t", 1), key("a", "t", 2), key("a", "u", 1), key("b", "t", 1))}
	planned := []Trial{rewarded(key("a", "t", 1), 0), rewarded(key("a", "t", 2), 0), rewarded(key("a", "u", 1), 1), rewarded(key("b", "t", 1), 1)}
	last := confirming(failed(key("a", "t", 4), AgentExecutionTimeout))
	last.Timestamps.EndedAt = start.Add(time.Minute)
	reused := confirming(rewarded(key("a", "t", 5), 1))
	reused.Reused, reused.Costs.Model = &Reused{Job: "x"}, Dollars(7)
	paid := confirming(rewarded(key("a", "t", 3), 9))
	paid.Costs.Model = Dollars(0.5)
	trials := append([]Trial{last, reused, paid, confirming(rewarded(key("a", "unplanned", 2), 1)), confirming(rewarded(key("a", "t", 3), 1))}, planned...)
	trials = append(trials, confirming(rewarded(key("a", "u", 1), 0))) // is marked, so it does not count as the planned one

	without, with := Summarize(plan, planned), Summarize(plan, trials)
	want := without
	want.TotalCost, want.ConfirmationCost, want.ConfirmationTrials = without.TotalCost.Plus(Dollars(1.25)), Dollars(1.25), 4
	want.EndedAt, want.TotalDurationSec = start.Add(time.Minute), 60
	want.Costs.Model = Dollars(0.5)
	agent := want.Agents["a"]
	agent.TotalCost, agent.ConfirmationCost, agent.ConfirmationTrials = agent.TotalCost.Plus(Dollars(1.25)), Dollars(1.25), 4
	want.Agents["a"] = agent
	want.Confirmations = OutcomesOf(OutcomeOf(paid), OutcomeOf(last), OutcomeOf(reused), OutcomeOf(trials[len(trials)-1]))
	if !reflect.DeepEqual(with, want) {
		t.Errorf("got  %+v\nwant %+v", with, want)
	}
	groups, before := Groups(plan, trials), Groups(plan, planned)
	if g := groups[0]; g.PassRate != before[0].PassRate || g.TotalTrials != 3 || g.ConfirmationTrials != 4 || g.TotalCost != before[0].TotalCost.Plus(Dollars(1.25)) {
		t.Errorf("group %+v", g)
	}
	if !reflect.DeepEqual(groups[1], before[1]) {
		t.Errorf("another agent's group %+v", groups[1])
	}
	stopped := Summarize(plan, append(planned, confirming(failed(key("a", "t", 3), Cancelled))))
	if !stopped.Cancelled {
		t.Error("a job is cancelled whose confirmation was")
	}
}

// TestChangeAfterConfirmation: a task that passes once when it is tried again is flaky instead of
// broken.
func TestChangeAfterConfirmation(t *testing.T) {
	type list = []any
	for _, c := range []struct {
		name              string
		base, head, again list
		want              Change
		flaky             bool
	}{
		{name: "it never passes", base: list{1}, head: list{0}, again: list{0, 0.5, AgentExecutionTimeout}, want: Broken},
		{name: "it passes once", base: list{1}, head: list{0}, again: list{0, 1}, want: Worse, flaky: true},
		{name: "it passes once after errors", base: list{1}, head: list{AgentExecutionTimeout}, again: list{1}, want: Worse, flaky: true},
		{name: "errors again", base: list{1}, head: list{AgentExecutionTimeout}, again: list{AgentExecutionTimeout}, want: Errored},
		{name: "only the infrastructure failed", base: list{1}, head: list{0}, again: list{EnvironmentLost}, want: Broken},
		{name: "what is not broken stays what it is", base: list{0}, head: list{0}, again: list{1}, want: Same, flaky: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			head := tries(c.head)
			head.Confirmations = tries(c.again).Results
			d := Compare(tries(c.base), head)
			if got := d.Tasks[0]; got.Change != c.want || got.Flaky != c.flaky || d.Counts[c.want] != 1 || (d.Flaky == 1) != c.flaky {
				t.Errorf("%s, flaky %v; want %s, %v", got.Change, got.Flaky, c.want, c.flaky)
			}
			if got := d.Tasks[0]; int(got.Confirmation.Total) != len(c.again) || len(got.Head.Rewards)+int(got.Head.Failed) != len(c.head) {
				t.Errorf("%+v %+v", got.Head, got.Confirmation)
			}
		})
	}
}

func TestFault(t *testing.T) {
	want := map[ErrorType]Fault{
		TaskInvalid: FaultTask, TaskNotFound: FaultTask,
		AgentInstallFailed: FaultInstall, AgentInstallTimeout: FaultInstall,
		AgentExecutionFailed: FaultAgent, AgentExecutionTimeout: FaultAgent, ModelFailed: FaultAgent, ModelEmptyResponse: FaultAgent,
		JudgeFailed: FaultJudge, JudgeTimeout: FaultJudge, JudgeVerdictMissing: FaultJudge, JudgeVerdictInvalid: FaultJudge,
		VerifierFailed: FaultVerifier, VerifierTimeout: FaultVerifier, VerifierRewardMissing: FaultVerifier, VerifierRewardInvalid: FaultVerifier,
	}
	for _, e := range append(ErrorTypes, "from_a_later_version") {
		fault, ok := want[e]
		if !ok {
			fault = FaultInfrastructure
		}
		if e == "from_a_later_version" {
			fault = FaultUnknown
		}
		if e.Fault() != fault || e.Infrastructure() != (fault == FaultInfrastructure) {
			t.Errorf("%s: %s, want %s", e, e.Fault(), fault)
		}
	}
}

// TestAttemptsOfBothDecide: the job may have broken a task that it passes in none of its further
// attempts, while the baseline passes more than half of them. As soon as that is impossible, there
// are no further ones, and both sides have equally many.
func TestAttemptsOfBothDecide(t *testing.T) {
	plan := Plan{JobName: "j", Trials: KeysOf(key("a", "t", 1), key("a", "t", 2), key("new", "t", 1))}.WithConfirmation(PlannedConfirmation{Attempts: 4, Tasks: []Key{key("a", "t", 0), key("new", "t", 0)}})
	ofBase := Plan{JobName: "j-against-1", Trials: KeysOf(plan.Trials.Slice()[:2]...), Beside: &Beside{Baseline: true, JobName: "j"}}
	plan.Beside = &Beside{JobName: "j-against-1"}
	lost, infrastructure := failed(key("a", "t", 0), AgentExecutionTimeout), failed(key("a", "t", 0), EnvironmentStartFailed)
	for _, c := range []struct {
		name         string
		head, base   []any // rewards, or trials with errors
		again        map[Key]bool
		first, other []Key
		broken       bool
	}{
		{name: "nothing yet", first: []Key{key("a", "t", 3)}, other: []Key{key("a", "t", 3)}, broken: true},
		{name: "one round", head: []any{0.0}, base: []any{1.0}, first: []Key{key("a", "t", 4)}, other: []Key{key("a", "t", 4)}, broken: true},
		{name: "the job is behind", base: []any{1.0}, first: []Key{key("a", "t", 3)}, broken: true},
		{name: "the baseline is behind", head: []any{0.0, 0.0}, base: []any{1.0}, other: []Key{key("a", "t", 4)}, broken: true},
		{name: "one that was cut short", head: []any{0.0, 0.0}, base: []any{1.0, 1.0}, again: map[Key]bool{key("a", "t", 4): true}, first: []Key{key("a", "t", 4)}, other: []Key{key("a", "t", 4)}, broken: true},
		{name: "the job passes one", head: []any{0.0, 1.0}, base: []any{1.0, 1.0}},
		{name: "the baseline fails one", head: []any{0.0, lost}, base: []any{1.0, 0.5}, first: []Key{key("a", "t", 5)}, other: []Key{key("a", "t", 5)}},
		{name: "the baseline fails two", head: []any{0.0, 0.0, 0.0}, base: []any{1.0, 0.0, lost}},
		{name: "what the infrastructure ended shows nothing", head: []any{0.0, 0.0, infrastructure, infrastructure}, base: []any{infrastructure, infrastructure, infrastructure, 1.0}, broken: true},
		{name: "three of four", head: []any{0.0, 0.0, 0.0, 0.0}, base: []any{1.0, 0.0, 1.0, 1.0}, broken: true},
		{name: "two of four", head: []any{0.0, 0.0, 0.0, 0.0}, base: []any{1.0, 0.0, 1.0, 0.0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			attempts := func(results []any) (trials []Trial) {
				for i, r := range results {
					one := Trial{}
					switch r := r.(type) {
					case float64:
						one = rewarded(key("a", "t", 3+i), r)
					case Trial:
						one = r
						one.Attempt = 3 + i
					}
					trials = append(trials, confirming(one))
				}
				return trials
			}
			alone := confirming(rewarded(key("new", "t", 2), 1)) // of an agent that the baseline lacks
			head := append(attempts(c.head), alone)
			first, other := NextBeside(Confirming{Plan: plan, Made: head, Again: c.again}, Confirming{Plan: ofBase, Made: attempts(c.base), Again: c.again})
			if !slices.Equal(first, c.first) || !slices.Equal(other, c.other) {
				t.Errorf("next are %v and %v, want %v and %v", first, other, c.first, c.other)
			}
			planned := []Trial{rewarded(key("a", "t", 1), 0), rewarded(key("a", "t", 2), 0), rewarded(key("new", "t", 1), 0)}
			passed := []Trial{rewarded(key("a", "t", 1), 1), rewarded(key("a", "t", 2), 1)}
			after := Summarize(plan, append(planned, head...))
			before := Summarize(ofBase.ConfirmedLike(plan), append(passed, attempts(c.base)...))
			if got := Compare(before, after).Tasks[0].Change == Broken; got != c.broken {
				t.Errorf("broken is %t", got)
			}
			// The attempts of a baseline that did not run with this job confirm something else.
			before.Beside = &Beside{Baseline: true, JobName: "other"}
			if d := Compare(before, after).Tasks[0]; d.BaseConfirmation != nil {
				t.Errorf("attempts of another job's baseline count: %+v", d.BaseConfirmation)
			}
		})
	}
}

// TestPlanOfABaselineThatOnlyConfirms plans only confirmation attempts, so no trial is missing.
func TestPlanOfABaselineThatOnlyConfirms(t *testing.T) {
	plan := Plan{JobName: "b", Beside: &Beside{Baseline: true, OnlyConfirms: true}, Trials: KeysOf(key("a", "t", 1))}.WithConfirmation(PlannedConfirmation{Attempts: 2, Tasks: []Key{key("a", "t", 0)}})
	job := Summarize(plan, []Trial{confirming(rewarded(key("a", "t", 2), 1))})
	if job.Cancelled || job.TotalTrials != 0 || job.ConfirmationTrials != 1 || job.Confirmations.Len() != 1 || plan.Check() != nil {
		t.Errorf("%+v, %v", job, plan.Check())
	}
	if groups := Groups(plan, []Trial{confirming(rewarded(key("a", "t", 2), 1))}); len(groups) != 1 || groups[0].ConfirmationTrials != 1 {
		t.Errorf("%+v", groups)
	}
}

// TestTheMirrorRule: the rule that confirms a fixed task is the one that confirms a broken task,
// with job and baseline exchanged. So chance confirms either as often.
func TestTheMirrorRule(t *testing.T) {
	task := key("a", "t", 0)
	compare := func(headReward float64, head, base []Trial) (change Change, first, other []Key) {
		again := PlannedConfirmation{Attempts: 4, Tasks: []Key{task}, Both: true}
		if headReward == 1 {
			again.Fixed = again.Tasks
		}
		plan := Plan{JobName: "j", Trials: KeysOf(key("a", "t", 1)), Beside: &Beside{JobName: "b"}}.WithConfirmation(again)
		ofBase := Plan{JobName: "b", Trials: plan.Trials, Beside: &Beside{Baseline: true, JobName: "j"}}.ConfirmedLike(plan)
		for _, p := range []Plan{plan, ofBase} {
			if err := p.checkConfirm(); err != nil || !p.Confirm.Both || p.LooksFixed(task) != (headReward == 1) {
				t.Fatalf("%+v, %v", p.Confirm, err)
			}
		}
		first, other = NextBeside(Confirming{Plan: plan, Made: head}, Confirming{Plan: ofBase, Made: base})
		after := Summarize(plan, append([]Trial{rewarded(key("a", "t", 1), headReward)}, head...))
		before := Summarize(ofBase, append([]Trial{rewarded(key("a", "t", 1), 1-headReward)}, base...))
		if !after.ConfirmsBoth {
			t.Fatal("the job does not say that tasks of both kinds were tried again")
		}
		return Compare(before, after).Tasks[0].Change, first, other
	}
	attempts := func(code, n int) (trials []Trial) {
		for i := range n {
			one := confirming(rewarded(key("a", "t", 2+i), float64(code%2)))
			if code%3 == 2 {
				one = confirming(failed(key("a", "t", 2+i), EnvironmentLost))
			}
			trials = append(trials, one)
			code /= 3
		}
		return trials
	}
	confirmed := 0
	for n := range 5 {
		for code := range 81 {
			for other := range 81 {
				head, base := attempts(code, n), attempts(other, n)
				broken, a, b := compare(0, head, base)
				fixed, c, d := compare(1, base, head)
				if (broken == Broken) != (fixed == Fixed) || !slices.Equal(a, d) || !slices.Equal(b, c) {
					t.Fatalf("after %d attempts (%d, %d): %s with %v and %v next; exchanged %s with %v and %v", n, code, other, broken, a, b, fixed, c, d)
				}
				if n == 4 && broken == Broken {
					confirmed++
				}
			}
		}
	}
	if confirmed < 10 {
		t.Errorf("%d cases are confirmed: this test has lost its point", confirmed)
	}
	// The job alone tries again no task that looks fixed.
	plan := Plan{Trials: KeysOf(key("a", "t", 1))}.WithConfirmation(PlannedConfirmation{Attempts: 4, Tasks: []Key{task}, Fixed: []Key{task}, Both: true})
	if next := plan.NextConfirmations(nil, nil); len(next) > 0 {
		t.Errorf("next is %v", next)
	}
	// A later decision replaces an earlier one: a task that ran again may no longer look fixed.
	if now := plan.WithConfirmation(PlannedConfirmation{Attempts: 2, Tasks: []Key{task}, Both: true}); now.LooksFixed(task) || now.Confirm.Attempts != 4 || len(now.Confirm.Tasks) != 1 {
		t.Errorf("%+v", now.Confirm)
	}
}

func TestConfirmedText(t *testing.T) {
	of := func(rewards ...float64) *Attempts {
		a := &Attempts{}
		for _, r := range rewards {
			a.Rewards = append(a.Rewards, r)
			if r == 1 {
				a.Passed++
			}
		}
		return a
	}
	for _, c := range []struct {
		head, base *Attempts
		fixed      bool
		want       string
	}{
		{want: ""},
		{head: of(0, 1), want: "not broken: passed 1 of 2 more attempts"},
		{head: of(0, 0), base: of(0, 0), want: "not broken by this change: the baseline passed 0 of 2 more attempts now"},
		{head: of(0, 0, 0, 0), base: of(1, 1, 0, 1), want: "confirmed broken: passed 0 of 4 more attempts, and the baseline 3 of 4"},
		{head: of(0), want: "confirmed broken: passed 0 of 1 more attempt"},
		{head: of(), base: of(), want: "not confirmed: no further attempt showed anything"},
		{head: of(1, 1), base: of(0, 1), fixed: true, want: "not fixed by this change: the baseline passed 1 of 2 more attempts now"},
		{head: of(0, 0), base: of(0, 0), fixed: true, want: "not fixed: passed 0 of 2 more attempts"},
		{head: of(1, 1, 0, 1), base: of(0, 0, 0, 0), fixed: true, want: "confirmed fixed: passed 3 of 4 more attempts, and the baseline none of 4"},
		{head: of(1, 1), fixed: true, want: "looked fixed: passed 2 of 2 more attempts"},
		{head: of(), base: of(), fixed: true, want: "not confirmed: no further attempt showed anything"},
	} {
		if got := ConfirmedText(c.head, c.base, c.fixed); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
