package report_test

import (
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
)

// The steps of a trial without a result are those that have directories, in the order in which they
// began, and the logs of the last one come first.
func TestStepsOfATrialThatRuns(t *testing.T) {
	key := result.Key{Agent: "a", Dataset: "d", Task: "t", Attempt: 1}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text), Mode: 0o644} }
	dir := func(age time.Duration) *fstest.MapFile {
		return &fstest.MapFile{Mode: fs.ModeDir | 0o755, ModTime: at.Add(-age)}
	}
	files := fstest.MapFS{
		"a/d/t__1/steps/zero": dir(2 * time.Minute), "a/d/t__1/steps/alpha": dir(time.Minute), "a/d/t__1/steps/beta": dir(0), "a/d/t__1/steps/file": file("no directory"),
		"a/d/t__1/steps/zero/command/stdout.txt": file("z"), "a/d/t__1/steps/alpha/command/stdout.txt": file("a"), "a/d/t__1/steps/beta/logs/verifier/stdout.txt": file("b"),
		"a/d/t__1/setup/stdout.txt": file("installed"),
	}
	in := report.Input{Files: files}
	for name, c := range map[string]struct {
		trial result.Trial
		steps []string
	}{
		"one that runs":   {result.Trial{Key: key}, []string{"steps/zero", "steps/alpha", "steps/beta"}},
		"one with steps":  {result.Trial{Key: key, Steps: []result.StepRun{{Name: "alpha"}, {Name: "../zero"}, {Name: "beta"}}}, []string{"steps/alpha", "steps/beta"}},
		"one without any": {result.Trial{Key: key, Reward: new(1.0)}, nil},
		"another one":     {result.Trial{Key: result.Key{Agent: "a", Dataset: "d", Task: "t", Attempt: 2}}, nil},
	} {
		if got := report.StepDirs(in, c.trial); !slices.Equal(got, c.steps) {
			t.Errorf("%s: %q, want %q", name, got, c.steps)
		}
	}
	want := []string{"a/d/t__1/steps/beta/logs/verifier/stdout.txt", "a/d/t__1/steps/alpha/command/stdout.txt", "a/d/t__1/steps/zero/command/stdout.txt", "a/d/t__1/setup/stdout.txt"}
	if got := report.Logs(in, result.Trial{Key: key}); !slices.Equal(got, want) {
		t.Errorf("the logs are %q, want %q", got, want)
	}
}
