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
