package judging

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
)

// files writes files of a trial.
func files(t *testing.T, dir string, contents map[string]string) {
	t.Helper()
	for name, text := range contents {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// A trial that was killed has paid for its calls.
func TestKilledTrialsHaveTheCostOfTheirRecord(t *testing.T) {
	const (
		quarter = `{"turn":1,"usage":{"input_tokens":5,"output_tokens":5},"cost":0.25}` + "\n"
		half    = `{"turn":2,"usage":{"input_tokens":5,"output_tokens":5,"estimated":true},"cost":0.5,"cost_at_least":true}` + "\n"
		torn    = `{"turn":3,"usa`
	)
	for name, c := range map[string]struct {
		files   map[string]string
		cost    float64
		atLeast bool
	}{
		"without calls":                {},
		"while the agent ran":          {map[string]string{result.TrajectoryFile: quarter + half + torn}, 0.75, true},
		"without a record of calls":    {map[string]string{result.CallCostsFile: quarter + torn}, 0.25, false},
		"before its judges asked":      {map[string]string{result.TrajectoryFile: quarter, result.JudgesDir + "/inputs/" + result.TrajectoryFile: half}, 0.25, false},
		"after its environment's cost": {map[string]string{result.TrajectoryFile: quarter, result.UnjudgedFile: `{"costs":{"model":0.25,"environment":2}}`}, 2.25, false},
		"while its judges worked": {map[string]string{
			result.TrajectoryFile:           quarter,
			result.UnjudgedFile:             `{"costs":{"model":0.25}}`,
			"judges/a/trajectory.jsonl":     quarter,
			"judges/b/judged.json":          `{"run":{"cost":4},"environment_cost":8}`,
			"judges/b/trajectory.jsonl":     quarter,
			"judges/c.failed-1/costs.jsonl": quarter,
			"judges/c.failed-2/judged.json": `{"run":{"cost":16}}`, // with that of the first
			"judges/c.failed-3/costs.jsonl": half,
			"judges/c/costs.jsonl":          quarter,
		}, 0.25 + 0.25 + 12 + 16.75, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			files(t, dir, c.files)
			if got := RecordedCost(dir); got.Amount() != c.cost || got.AtLeast() != c.atLeast {
				t.Errorf("the records say %v (a lower bound: %v), want %v", got.Amount(), got.AtLeast(), c.cost)
			}
		})
	}
}

// The cost of a ranking is in results when it has ended. Until then, it is in the records of the
// judge's calls.
func TestRankingsThatDidNotEndHaveTheCostOfTheirRecord(t *testing.T) {
	const (
		one  = `{"turn":1,"usage":{"input_tokens":5,"output_tokens":5},"cost":1}` + "\n"
		four = `{"run":{"cost":4,"group":{"id":"g","environment_cost":8}}}`
	)
	for name, c := range map[string]struct {
		files map[string]string
		cost  float64
	}{
		"without a ranking": {map[string]string{result.TrajectoryFile: one, "judges/other/trajectory.jsonl": one}, 0},
		"that was killed":   {map[string]string{"judges/best/trajectory.jsonl": one, "judges/best.order-2/costs.jsonl": one + one}, 3},
		"that ended":        {map[string]string{"judges/best/judged.json": `{"run":{"cost":4},"environment_cost":8}`, "judges/best/group.json": four}, 0},
		"that was killed when it was made again": {map[string]string{
			"judges/best.failed-1/judged.json": `{"run":{"cost":1}}`,
			"judges/best.failed-1/group.json":  `{"run":{"cost":1,"group":{"id":"f"}}}`,
			"judges/best.failed-2/judged.json": `{"run":{"cost":4},"environment_cost":8}`,
			"judges/best.failed-2/group.json":  four,
			"judges/best/trajectory.jsonl":     one,
			"judges/best.order-2/costs.jsonl":  one,
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			files(t, dir, c.files)
			if got := UnrankedCost(dir, []string{"best"}).Amount(); got != c.cost {
				t.Errorf("the records say %v, want %v", got, c.cost)
			}
		})
	}
}
