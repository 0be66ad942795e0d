package inspect_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/app/inspect"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/apptest"
)

// The name of a task selects its trials also where other names contain it.
func TestWholeNamesWin(t *testing.T) {
	h, _ := apptest.New(t)
	dir := h.Path("jobs/one")
	apptest.PlannedJob(t, dir, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	trial := func(task string, attempt int) result.Key {
		return result.Key{Task: task, Dataset: "d", Agent: "a", Attempt: attempt}
	}
	plan := result.Plan{JobName: "one", Trials: result.KeysOf(trial("hello", 1), trial("hello-Ada", 1), trial("bye", 1), trial("bye", 2), trial("bye-Ada", 1))}
	if err := result.WriteJSON(filepath.Join(dir, result.PlanFile), plan); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"a/d/hello", "d/hello", "hello", "hello__1", "a/d/hello__1"} {
		if got, err := inspect.FindTrial(h.Paths, "jobs/one", part); err != nil || got != trial("hello", 1) {
			t.Errorf("%s: %v, %v", part, got, err)
		}
	}
	_, err := inspect.FindTrial(h.Paths, "jobs/one", "bye")
	apptest.Refused(t, err, `2 trials of jobs/one have "bye" in their names; give more of one: a/d/bye__1, a/d/bye__2`)
	_, err = inspect.FindTrial(h.Paths, "jobs/one", "hell")
	apptest.Refused(t, err, "2 trials")
}
