package markdown_test

import (
	"testing"

	"github.com/org/rollout-action/internal/report"
	"github.com/org/rollout-action/internal/report/reporttest"
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
