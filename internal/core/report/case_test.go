package report_test

import (
	"slices"
	"testing"

	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/reporttest"
)

func TestStates(t *testing.T) {
	at := func(n int, reward *float64, kind result.ErrorType) reporttest.Spec {
		return reporttest.Spec{Agent: "a", Dataset: "d", Task: "t", Attempt: n, Reward: reward, Error: kind}
	}
	missing := reporttest.Spec{Agent: "a", Dataset: "d", Task: "t", Attempt: 2, Missing: true}
	one, half := new(1.0), new(0.5)
	for _, c := range []struct {
		name    string
		specs   []reporttest.Spec
		want    report.State
		telling int // the attempt; 0: none
	}{
		{"all pass", []reporttest.Spec{at(1, one, ""), at(2, one, "")}, report.Passed, 0},
		{"one passes, one has less", []reporttest.Spec{at(1, one, ""), at(2, half, "")}, report.Flaky, 2},
		{"one passes, one has an error", []reporttest.Spec{at(1, result1(), ""), at(2, nil, result.EnvironmentLost)}, report.Flaky, 2},
		{"one passes, one was cancelled", []reporttest.Spec{at(1, one, ""), at(2, nil, result.Cancelled)}, report.Passed, 2},
		{"one was cancelled, one was not run", []reporttest.Spec{at(1, nil, result.Cancelled), missing}, report.Errored, 1},
		{"none passes", []reporttest.Spec{at(1, nil, result.EnvironmentLost), at(2, half, "")}, report.Failed, 2},
		{"errors alone", []reporttest.Spec{at(1, nil, result.EnvironmentLost), missing}, report.Errored, 1},
		{"a pass with a teardown error", []reporttest.Spec{at(1, one, result.EnvironmentTeardownFailed)}, report.Passed, 0},
		{"one passes, one was not run", []reporttest.Spec{at(1, one, ""), missing}, report.Passed, 0},
		{"not run", []reporttest.Spec{missing}, report.Skipped, 0},
		{"not judged", []reporttest.Spec{at(1, nil, "")}, report.Unverified, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := report.Cases(reporttest.Make("x", c.specs))[0]
			telling := 0
			if trial := got.FirstFailure(); trial != nil {
				telling = trial.Attempt
			}
			if got.State != c.want || telling != c.telling {
				t.Errorf("got %s, told by attempt %d; want %s, %d", got.State, telling, c.want, c.telling)
			}
		})
	}
}

func result1() *float64 { return new(1.0) }

func TestCasesFollowThePlan(t *testing.T) {
	in := reporttest.Shard()
	if got := report.Cases(in); len(got) != 1 || got[0].Task != "baking-order" {
		t.Errorf("got %+v", got)
	}
	in = reporttest.Passing()
	trials := result.UnpackAll(in.Trials)
	stranger, second := trials[0], trials[1]
	stranger.Task = "stranger"
	second.Reward = new(0.0)
	in.Trials = result.PackAll(append(trials, stranger, second))
	planned := in.Plan.Trials.Slice()
	slices.Reverse(planned)
	in.Plan.Trials = result.KeysOf(planned...)
	cases := report.Cases(in)
	if len(cases) != 6 || cases[0].Task != "baking-order" || cases[1].State != report.Passed {
		t.Errorf("got %d cases, the first %s, the second %s", len(cases), cases[0].Task, cases[1].State)
	}
}

func TestPathsThatLeadOutAreDropped(t *testing.T) {
	for path, want := range map[string]string{
		"tasks/a": "tasks/a", "../a": "", "/etc": "", "a/../../b": "", ".": "", "..": "", "a//b": "", "a\nb": "", "": "", "a\u202eb": "",
	} {
		in := reporttest.Make("x", []reporttest.Spec{{Agent: "a", Dataset: "d", Task: "t"}})
		in.Plan.Tasks[0].Path = path
		if got := report.Cases(in)[0].Path; got != want {
			t.Errorf("%q becomes %q, want %q", path, got, want)
		}
	}
}

func TestProblemsAreInOrder(t *testing.T) {
	in := reporttest.Mixed()
	in.Verdict.Quarantined = []gate.Quarantined{{Dataset: "cookbook", Task: "library-fines"}}
	var got []string
	for _, c := range report.Problems(report.Cases(in)) {
		got = append(got, c.Task)
	}
	// broken, errored, failed, flaky; and the broken one that is in quarantine
	want := []string{"split-the-bill", "photo-album", "clean-exit", "tea-time", "baking-order", "library-fines"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestHeadlines(t *testing.T) {
	for name, want := range map[string]struct {
		mark     report.Mark
		headline string
	}{
		"passing":     {report.MarkPassed, "no task got better or worse"},
		"mixed":       {report.MarkFailed, "2 broken, 1 errored, 1 fixed (as chance does), 1 better, 3 tasks not compared"},
		"no-baseline": {report.MarkUncompared, "1 of 3 tasks passed"},
		"incomplete":  {report.MarkIncomplete, "1 of 4 tasks passed, 3 did not run"},
		"quarantine":  {report.MarkInconclusive, "1 broken, 1 worse"},
		"advised":     {report.MarkAdvised, "1 broken, 1 worse"},
		"shard":       {report.MarkPart, "1 of 1 task passed"},
	} {
		in := reporttest.Inputs()[name]
		if mark, line := in.Mark(), in.Headline(report.Cases(in)); mark != want.mark || line != want.headline {
			t.Errorf("%s: got %s, %q; want %+v", name, mark, line, want)
		}
	}
}

// A sound task does not let nop pass.
func TestNopThatFailsIsNoProblem(t *testing.T) {
	in := reporttest.Make("x", []reporttest.Spec{
		{Agent: "nop", Dataset: "d", Task: "sound", Reward: new(0.0)}, {Agent: "nop", Dataset: "d", Task: "lost", Error: result.EnvironmentLost, Message: "gone"},
		{Agent: "oracle", Dataset: "d", Task: "sound", Reward: new(1.0)}, {Agent: "oracle", Dataset: "d", Task: "lost", Reward: new(1.0)},
	})
	cases := report.Cases(in)
	if got := report.Problems(cases); len(got) != 1 || got[0].Task != "lost" || got[0].Agent != "nop" {
		t.Errorf("troubled are %+v, want nop's error alone", got)
	}
	for _, c := range []struct {
		agents []string
		want   string
	}{
		{[]string{"nop", "oracle"}, "2 of 2 tasks passed"}, {[]string{"nop"}, "0 of 2 tasks passed, 1 did not run"}, {[]string{"oracle"}, "2 of 2 tasks passed"},
	} {
		kept := slices.DeleteFunc(slices.Clone(cases), func(k report.Case) bool { return !slices.Contains(c.agents, k.Agent) })
		if got := in.Headline(kept); got != c.want {
			t.Errorf("%v: %q, want %q", c.agents, got, c.want)
		}
	}
}
