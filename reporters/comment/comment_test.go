package comment_test

import (
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/report"
	"github.com/org/rollout-action/internal/report/reporttest"
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
