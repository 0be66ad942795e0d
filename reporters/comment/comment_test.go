package comment_test

import (
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/reporttest"
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
	reporttest.ChangeTrials(&in, func(trials []result.Trial) {
		for i := range trials {
			trials[i].Agents = []result.AgentRun{{
				Name: "quality", Role: result.RoleJudge, Score: new(0.25), Reason: "Too long.\n</details>\n# @org/team <script>alert(1)</script> [x](https://example.org) " + strings.Repeat("and so on ", 100),
			}}
		}
	})
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

// What judges said explains a reward that is below 1 because of them, and their part of the cost is
// shown.
func TestJudgesExplainAReward(t *testing.T) {
	in := reporttest.Make("judged", []reporttest.Spec{{Agent: "mine", Dataset: "evals", Task: "letter", Reward: new(0.625), Seconds: 1}})
	judged := result.UnpackAll(in.Trials)
	judged[0].TestsReward, judged[0].Costs.Judges = new(1.0), result.Dollars(0.25)
	judged[0].Cost = judged[0].Costs.Total()
	judged[0].Agents = []result.AgentRun{
		{Name: "mine", Role: result.RolePolicy},
		{Name: "quality", Role: result.RoleJudge, Score: new(0.25), Reason: "Too long.\n</details>\n# <script>alert(1)</script> @org/team | x"},
		{Name: "polite", Role: result.RoleJudge, Score: new(1.0), Reason: "It thanks."},
	}
	reporttest.SetTrials(&in, judged)
	text := string(reporttest.Write(t, comment.Reporter{}, in))
	for _, want := range []string{"What judges said:\n\n- `quality` 0.25: Too long.⏎", "$0.25 (judges $0.25)", "Rollout passed: mean reward 0.625 over 1 task\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the comment:\n%s", want, text)
		}
	}
	for _, other := range []string{"It thanks", "No log tells why", "<script", " @org/team"} {
		if strings.Contains(text, other) {
			t.Errorf("%q is in the comment:\n%s", other, text)
		}
	}
	judged[0].TestsReward = judged[0].Reward // the judges only measure
	reporttest.SetTrials(&in, judged)
	if text := string(reporttest.Write(t, comment.Reporter{}, in)); strings.Contains(text, "Too long") || !strings.Contains(text, "0 of 1 task passed") {
		t.Errorf("judges explain the reward of the tests:\n%s", text)
	}
}

// pair returns a job of attempts at one task that pass or do not, compared with a baseline.
func pair(base, head []float64) report.Input {
	specs := func(rewards []float64) (all []reporttest.Spec) {
		for i, r := range rewards {
			all = append(all, reporttest.Spec{Agent: "mine", Dataset: "d", Task: "t", Attempt: i + 1, Reward: new(r), Seconds: 2, Cost: 0.5})
		}
		return all
	}
	return reporttest.Against(reporttest.Make("head", specs(head)), reporttest.Make("base", specs(base)))
}

func TestResultsOfSeveralAttempts(t *testing.T) {
	for _, c := range []struct {
		base, head []float64
		want       string
	}{
		{[]float64{1, 1, 1}, []float64{0, 0, 0}, "| 3/3 → 0/3 | −1 |"},
		{[]float64{1, 1, 1, 1}, []float64{0}, "| 4/4 → 0/1 | −1 |"},
		{[]float64{1}, []float64{0}, "| 1 → 0 | −1 |"},
		{[]float64{1, 1}, []float64{0.5, 1}, "| 1 → 0.75 | −0.25 |"},
	} {
		if text := string(reporttest.Write(t, comment.Reporter{}, pair(c.base, c.head))); !strings.Contains(text, c.want) {
			t.Errorf("no %q in:\n%s", c.want, text)
		}
	}
}

// A change that is the same in every row takes no column.
func TestColumnsWithoutChangeAreLeftOut(t *testing.T) {
	in := pair([]float64{1, 1, 1, 1}, []float64{0})
	if text := string(reporttest.Write(t, comment.Reporter{}, in)); strings.Contains(text, "Cost change") || !strings.Contains(text, "| Cost of a trial | $0.50 | $0.50 | ±0 |") {
		t.Error(text)
	}
	in.Job.Results.Change(0, func(o *result.Outcome) { o.Cost = result.Dollars(0.75) })
	if text := string(reporttest.Write(t, comment.Reporter{}, in)); !strings.Contains(text, "Cost change") {
		t.Error(text)
	}
}

// The comment of a job that broke much stays short until its reader asks for more.
func TestManyRowsAreFolded(t *testing.T) {
	text := string(reporttest.Write(t, comment.Reporter{}, reporttest.Large(400))) // 40 are broken
	open, _, _ := strings.Cut(text[strings.Index(text, "### Tasks against"):], "<details>")
	if n := strings.Count(open, "❌ broken"); n != 20 {
		t.Errorf("%d rows are open:\n%s", n, open)
	}
	if !strings.Contains(text, "<summary>20 more</summary>") || !strings.Contains(text, "`task-00390-") {
		t.Errorf("the others are not folded:\n%s", text)
	}
}

// The statistics of the gate are in the folded table of its checks.
func TestStatisticsAreFolded(t *testing.T) {
	for reason, want := range map[string]string{
		"pass rate 75% (9 of 12; 95% interval 45.9% to 90.6%), at least 80% is asked for":                                                                                                       "pass rate 75% (9 of 12), at least 80% is asked for",
		"mean reward fell from 0.9 to 0.7 (-0.2, 90% interval -0.35 to -0.05) on 20 tasks; chance alone does that in 1.2% of runs, at most 0.05 is allowed":                                     "mean reward fell from 0.9 to 0.7 (-0.2) on 20 tasks, at most 0.05 is allowed",
		"mean reward fell from 0.9 to 0.7 (-0.2, 90% interval -0.35 to +0.05) on 6 tasks; chance alone does that in 9% of runs, so this suite cannot tell it from chance; and 2 checks besides": "mean reward fell from 0.9 to 0.7 (-0.2) on 6 tasks, so this suite cannot tell it from chance; and 2 checks besides",
		"2 tasks broke, at most 0 may; 1 more task passed when tried again (flaky)":                                                                                                             "2 tasks broke, at most 0 may; 1 more task passed when tried again (flaky)",
	} {
		in := reporttest.Passing()
		in.Verdict.Reason = reason
		text := string(reporttest.Write(t, comment.Reporter{}, in))
		if !strings.Contains(text, "Gate: "+want+"\n") {
			t.Errorf("no %q in:\n%s", want, text[:min(len(text), 600)])
		}
	}
}

// A job has one pass rate; with errors it is that of all trials, as the heading counts.
func TestOnePassRate(t *testing.T) {
	for name, in := range map[string]report.Input{"errors": reporttest.Errors(), "passing": reporttest.Passing(), "incomplete": reporttest.Incomplete()} {
		text := string(reporttest.Write(t, comment.Reporter{}, in))
		open, _, _ := strings.Cut(text, "<details>")
		if n := strings.Count(strings.ToLower(open), "pass rate"); n != 1 {
			t.Errorf("%s: %d pass rates in:\n%s", name, n, open)
		}
	}
}

// Sentences wrap in the cells of a comment.
func TestConfirmationsAreShort(t *testing.T) {
	of := func(scores ...float64) *result.Attempts {
		a := &result.Attempts{Total: int32(len(scores)), Rewards: scores}
		for _, s := range scores {
			a.Passed += int(s)
		}
		return a
	}
	for _, c := range []struct {
		base, head *result.Attempts
		want       string
	}{
		{nil, of(0, 0, 0, 0), "| 1 → 0; again 0/4 |"},
		{of(1, 1, 0, 1), of(0, 0, 0, 0), "| 1 → 0; again 3/4 → 0/4 |"},
		{of(0, 0), nil, "| 1 → 0; again 0/2 → – |"},
		{nil, of(), "| 1 → 0; not confirmed |"},
		{nil, nil, "| 1 → 0 |"},
	} {
		in := pair([]float64{1}, []float64{0})
		in.Diff.Tasks[0].BaseConfirmation, in.Diff.Tasks[0].Confirmation = c.base, c.head
		if text := string(reporttest.Write(t, comment.Reporter{}, in)); !strings.Contains(text, c.want) {
			t.Errorf("no %q in:\n%s", c.want, text)
		}
	}
}
