package trial

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/org/rollout-action/internal/result"
)

// A trial that was killed has paid for its calls.
func TestKilledTrialsHaveTheCostOfTheirRecord(t *testing.T) {
	dir := t.TempDir()
	if got := RecordedCost(dir); got.Amount() != 0 {
		t.Errorf("a trial without calls cost %v", got)
	}
	lines := `{"turn":1,"usage":{"input_tokens":5,"output_tokens":5},"cost":0.25}` + "\n" + `{"turn":2,"usage":{"input_tokens":5,"output_tokens":5,"estimated":true},"cost":0.5,"cost_at_least":true}` + "\n" + `{"turn":3,"usa`
	if err := os.WriteFile(filepath.Join(dir, result.TrajectoryFile), []byte(lines), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := RecordedCost(dir); got.Amount() != 0.75 || !got.AtLeast() {
		t.Errorf("the record of a killed trial says %+v", got)
	}
	if err := os.WriteFile(filepath.Join(dir, result.ResultFile), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := RecordedCost(dir); got.Amount() != 0 {
		t.Errorf("the cost of a trial with a result counts twice: %+v", got)
	}
}
