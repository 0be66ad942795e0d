package result

import (
	"reflect"
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
	plan := Plan{JobName: "j", StartedAt: start, Metrics: []string{"sum", "max"}, Trials: []Key{key("a", "t", 1), key("a", "t", 2), key("a", "u", 1), key("b", "t", 1)}}
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
	want.Confirmations = []Outcome{OutcomeOf(paid), OutcomeOf(last), OutcomeOf(reused), OutcomeOf(trials[len(trials)-1])}
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

// TestChangeAfterConfirmation: a task that passes once when it is tried again is flaky instead of broken.
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
			if got := d.Tasks[0]; got.Confirmation.Total != len(c.again) || len(got.Head.Rewards)+got.Head.Failed != len(c.head) {
				t.Errorf("%+v %+v", got.Head, got.Confirmation)
			}
		})
	}
}

func TestFault(t *testing.T) {
	want := map[ErrorType]Fault{
		TaskInvalid: FaultTask, TaskNotFound: FaultTask,
		AgentInstallFailed: FaultInstall, AgentInstallTimeout: FaultInstall,
		AgentExecutionFailed: FaultAgent, AgentExecutionTimeout: FaultAgent,
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
