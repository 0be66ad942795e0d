package reporting

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
)

// The number alone does not say that the cost is not known in full.
func TestOutputsTellWhetherTheCostIsExact(t *testing.T) {
	for want, cost := range map[string]result.USD{
		"total-cost 1.5, total-cost-exact true":  result.Dollars(1.5),
		"total-cost 1.5, total-cost-exact false": result.Dollars(1.5).LowerBound(),
		"total-cost , total-cost-exact ":         {},
	} {
		file := filepath.Join(t.TempDir(), "output")
		w := &Workflow{Getenv: func(name string) (string, bool) { return file, name == "GITHUB_OUTPUT" }}
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := w.setOutputs(report.Input{Job: result.Job{Summary: result.Summary{TotalCost: cost}}}, ""); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, m := range regexp.MustCompile(`(?m)^(total-cost[a-z-]*)<<.*\n(.*)$`).FindAllStringSubmatch(string(text), -1) {
			if got != "" {
				got += ", "
			}
			got += m[1] + " " + m[2]
		}
		if got != want {
			t.Errorf("the outputs are %q, want %q:\n%s", got, want, text)
		}
	}
}
