package markdown_test

import (
	"math"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/reporttest"
	"github.com/org/rollout-action/reporters/markdown"
)

func TestGolden(t *testing.T) {
	for name, in := range reporttest.Inputs() {
		t.Run(name, func(t *testing.T) {
			reporttest.Golden(t, name+".md", reporttest.Write(t, markdown.Reporter{}, in))
		})
	}
}

func TestIsSafeAndFits(t *testing.T) {
	reporttest.Markdown(t, func(limit int) report.Reporter { return markdown.Reporter{Limit: limit} }, markdown.DefaultLimit)
}

// Detail is dropped in a fixed order, and the page says so.
func TestDropsDetailInOrder(t *testing.T) {
	in := reporttest.Large(400) // 40 broken (every tenth), 120 that never passed (task 3 is one), the rest passed (task 1)
	for _, c := range []struct {
		limit                                                  int
		passed, broken, last, failedBefore, logs, counts, note bool // what the page has
	}{
		{1_000_000, true, true, true, true, true, true, false},
		{250_000, false, true, true, true, true, true, true},
		{20_000, false, true, false, false, true, true, true},
		{9_000, false, false, false, false, false, true, true},
		{800, false, false, false, false, false, false, true},
	} {
		text := string(reporttest.Write(t, markdown.Reporter{Limit: c.limit}, in))
		for _, part := range []struct {
			what, text string
			want       bool
		}{
			{"a task that passed", "`task-00001-", c.passed},
			{"a broken task", "`task-00000-", c.broken},
			{"the last broken task of its set", "`task-00390-", c.last},
			{"a task that failed as before", "`task-00003-", c.failedBefore},
			{"logs", "```text", c.logs},
			{"counts", "Tasks: 40 broken", c.counts},
			{"what was left out", "Left out to fit", c.note},
			{"where the whole is", "The whole is in [the artifact](https://", c.note},
			{"the verdict", "Rollout failed: 40 broken", true},
		} {
			if got := strings.Contains(text, part.text); got != part.want {
				t.Errorf("limit %d: %s is there: %v, want %v", c.limit, part.what, got, part.want)
			}
		}
	}
}

func TestReportsWhereTrialsRan(t *testing.T) {
	in := reporttest.Passing()
	reporttest.ChangeTrials(&in, func(trials []result.Trial) {
		for i := range trials {
			trials[i].Environment = &result.Environment{Provider: "sandbox", Base: &result.Base{Requested: "debian", Actual: "this machine's root", Reason: "no engine"}}
		}
		trials[5].Environment.Base = &result.Base{Requested: "debian", Actual: "this machine's root", Reason: "base: host", Asked: true}
		trials[0].Environment.Unenforced = []string{"cpus", "memory"}
	})
	text := string(reporttest.Write(t, markdown.Reporter{}, in))
	for _, want := range []string{"5 trials did not run on the image asked for, but on this machine's root (no engine)", "1 trial ran on this machine's root (base: host)", "1 trial ran without limits that were asked for: cpus, memory"} {
		if !strings.Contains(text, want) {
			t.Errorf("not said: %s", want)
		}
	}
}

// An artifact may say that a baseline cost anything.
func TestAbsurdCostsAreShort(t *testing.T) {
	in := reporttest.Mixed()
	in.Diff.Overall.Base.Cost, in.Diff.Overall.Head.Cost = result.Dollars(math.Inf(1)), result.Dollars(1e308)
	text := string(reporttest.Write(t, markdown.Reporter{}, in))
	if !strings.Contains(text, "| Cost of a trial | $1e+308 | $Inf | −$Inf |") {
		t.Error(text[:min(len(text), 2000)])
	}
}
