package comment_test

import (
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
