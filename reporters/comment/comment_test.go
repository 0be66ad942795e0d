package comment_test

import (
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/report"
	"github.com/org/rollout-action/internal/report/reporttest"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/reporters/comment"
)

func TestGolden(t *testing.T) {
	for name, in := range reporttest.Inputs() {
		t.Run(name, func(t *testing.T) {
			reporttest.Golden(t, name+".md", reporttest.Write(t, comment.Reporter{}, in))
		})
	}
}

func TestIsSafeAndFits(t *testing.T) {
	reporttest.Markdown(t, func(limit int) report.Reporter { return comment.Reporter{Limit: limit} }, comment.DefaultLimit)
}

// A large job must use the space that a comment has.
func TestLargeJobFillsTheComment(t *testing.T) {
	for _, tasks := range []int{300, 4_000} {
		in := reporttest.Large(tasks)
		for _, limit := range []int{comment.DefaultLimit, 30_000, 15_000} {
			text := reporttest.Write(t, comment.Reporter{Limit: limit}, in)
			rows := strings.Count(string(text), "task-0")
			if len(text) < limit*8/10 && rows < 200 {
				t.Errorf("%d tasks: %d of %d bytes are used, for %d names of tasks", tasks, len(text), limit, rows)
			}
		}
	}
}

// Reasons of judges are shown for tasks that changed, and cannot do anything in a comment.
func TestReasonsOfJudges(t *testing.T) {
	in := reporttest.Mixed()
	for i := range in.Trials {
		in.Trials[i].Agents = []result.AgentRun{{
			Name: "quality", Role: result.RoleJudge, Score: new(0.25), Reason: "Too long.\n</details>\n# @org/team <script>alert(1)</script> [x](https://example.org) " + strings.Repeat("and so on ", 100),
		}}
	}
	text := string(reporttest.Write(t, comment.Reporter{}, in))
	said, ok := strings.CutPrefix(text[max(0, strings.Index(text, "<summary>What judges said")):], "<summary>What judges said about the tasks that changed</summary>")
	if !ok {
		t.Fatalf("there are no reasons:\n%s", text)
	}
	said, _, _ = strings.Cut(said, "</details>\n")
	if !strings.Contains(said, "`quality` 0.25: Too long.") || !strings.Contains(said, "…") || strings.Count(said, "and so on") > 10*100/2 {
		t.Errorf("the reasons are:\n%s", said)
	}
	for _, hostile := range []string{"<script", "\n#", "[x](http", " @org/team"} {
		if strings.Contains(said, hostile) {
			t.Errorf("%q is in the comment:\n%s", hostile, said)
		}
	}
}

// What judges said explains a reward that is below 1 because of them, and their part of the cost is shown.
func TestJudgesExplainAReward(t *testing.T) {
	in := reporttest.Make("judged", []reporttest.Spec{{Agent: "mine", Dataset: "evals", Task: "letter", Reward: new(0.625), Seconds: 1}})
	in.Trials[0].TestsReward, in.Trials[0].Costs.Judges = new(1.0), result.Dollars(0.25)
	in.Trials[0].Cost = in.Trials[0].Costs.Total()
	in.Trials[0].Agents = []result.AgentRun{
		{Name: "mine", Role: result.RolePolicy},
		{Name: "quality", Role: result.RoleJudge, Score: new(0.25), Reason: "Too long.\n</details>\n# <script>alert(1)</script> @org/team | x"},
		{Name: "polite", Role: result.RoleJudge, Score: new(1.0), Reason: "It thanks."},
	}
	in.Job = result.Summarize(in.Plan, in.Trials)
	text := string(reporttest.Write(t, comment.Reporter{}, in))
	for _, want := range []string{"What judges said:\n\n- `quality` 0.25: Too long.⏎", "$0.25 (judges $0.25)"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the comment:\n%s", want, text)
		}
	}
	for _, other := range []string{"It thanks", "No log tells why", "<script", " @org/team"} {
		if strings.Contains(text, other) {
			t.Errorf("%q is in the comment:\n%s", other, text)
		}
	}
	in.Trials[0].TestsReward = in.Trials[0].Reward // the judges only measure
	if text := string(reporttest.Write(t, comment.Reporter{}, in)); strings.Contains(text, "Too long") {
		t.Errorf("judges explain the reward of the tests:\n%s", text)
	}
}
