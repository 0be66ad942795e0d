package result

import (
	"slices"
	"testing"
)

// What was kept of a trial belongs to the job that ran it; of a task with steps, each has its
// files.
func TestKeptFilesOfSteps(t *testing.T) {
	last := &KeptOutcome{ID: "two", Bytes: 2}
	trial := Trial{
		Environment: &Environment{Provider: "fake", Preserved: true, Outcome: last},
		Steps:       []StepRun{{Name: "a", Outcome: &KeptOutcome{ID: "one", Bytes: 1}}, {Name: "b"}, {Name: "c", Outcome: last}},
	}
	ids := func(t Trial) (ids []string) {
		for _, kept := range t.Outcomes() {
			ids = append(ids, kept.ID)
		}
		return ids
	}
	if got := ids(trial); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("kept: %q", got)
	}
	without := trial.WithoutKept()
	if got := ids(without); len(got) > 0 || without.Environment.Preserved || without.Environment.Outcome != nil || len(without.Steps) != 3 {
		t.Errorf("left: %q of %+v", got, without)
	}
	if len(ids(trial)) != 2 || !trial.Environment.Preserved {
		t.Error("the trial itself has changed")
	}
	trial.Steps = nil
	if got := ids(trial); !slices.Equal(got, []string{"two"}) {
		t.Errorf("without steps: %q", got)
	}
	if got := (Trial{}).WithoutKept(); got.Steps != nil || got.Environment != nil {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestVerifiedOn(t *testing.T) {
	steps := func(on ...string) (all []StepRun) {
		for _, s := range on {
			all = append(all, StepRun{VerifiedOn: s})
		}
		return all
	}
	for name, c := range map[string]struct {
		trial Trial
		want  string
	}{
		"a trial that ran":        {Trial{}, ""},
		"only judges":             {Trial{Reverified: &Reverified{OnlyJudges: true}}, ""},
		"an outcome":              {Trial{Reverified: &Reverified{Outcome: true}}, OnOutcome},
		"artifacts":               {Trial{Reverified: &Reverified{Artifacts: true}}, OnArtifacts},
		"an environment":          {Trial{Reverified: &Reverified{}}, OnEnvironment},
		"equal steps":             {Trial{Reverified: &Reverified{}, Steps: steps(OnArtifacts, OnArtifacts)}, OnArtifacts},
		"a step that ended early": {Trial{Reverified: &Reverified{}, Steps: steps(OnOutcome, "")}, OnOutcome},
		"different steps":         {Trial{Reverified: &Reverified{Outcome: true}, Steps: steps(OnOutcome, OnArtifacts)}, ""},
	} {
		if got := c.trial.VerifiedOn(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
