package result

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

// TestABriefTrialLacksOnlyWhatItsPageShows reads trials with and without an environment that says
// more than its image.
func TestABriefTrialLacksOnlyWhatItsPageShows(t *testing.T) {
	at := Stamp(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	for name, environment := range map[string]*Environment{
		"none": nil, "plain": {Provider: "docker", Image: "debian", ID: "abc"}, "kept": {Provider: "docker", Image: "debian", ID: "abc", Preserved: true},
		"with a limit that was not enforced": {Provider: "docker", Image: "debian", ID: "abc", Unenforced: []string{"cpus"}},
	} {
		made := rewarded(key("a", "t", 1), 1)
		made.Environment, made.Warnings = environment, []string{"slow"}
		made.Timestamps = Timestamps{StartedAt: at, AgentSetupStartedAt: &at, EndedAt: at}
		text, err := Marshal(made)
		if err != nil {
			t.Fatal(err)
		}
		path := t.TempDir()
		if err := os.WriteFile(filepath.Join(path, ResultFile), text, 0o644); err != nil {
			t.Fatal(err)
		}
		dir, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		var whole, brief Trial
		ok, err := (&TrialReader{}).Read(dir, "here", made.Key, &whole, nil)
		also, err2 := (&TrialReader{Brief: true}).Read(dir, "here", made.Key, &brief, nil)
		if err := errors.Join(err, err2, dir.Close()); !ok || !also || err != nil {
			t.Fatal(ok, also, err)
		}
		if !reflect.DeepEqual(whole.Environment, environment) || whole.Timestamps.AgentSetupStartedAt == nil {
			t.Errorf("%s: the whole trial is %+v", name, whole)
		}
		whole.Timestamps.AgentSetupStartedAt = nil
		if name == "plain" {
			whole.Environment.ID = ""
		}
		if !reflect.DeepEqual(brief, whole) {
			t.Errorf("%s: got %+v, want %+v", name, brief, whole)
		}
	}
}
