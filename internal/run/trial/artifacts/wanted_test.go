package artifacts

import (
	"testing"

	"github.com/org/rollout-action/internal/core/task"
)

func TestPathsOfTheJobGetPlacesThatTheTaskDoesNotUse(t *testing.T) {
	ofTask := []task.Artifact{{Source: "/app", Destination: "app"}, {Source: "/out", Destination: "var", Exclude: []string{"*.o"}}}
	for path, want := range map[string]string{
		"/app":     "", // the task keeps it
		"/app/src": "",
		"/apple":   "apple",
		"/out/x":   "out/x", // the task may leave it out
		"/var/log": "job/var/log",
	} {
		got := Wanted(ofTask, []string{path})
		switch {
		case want == "" && len(got) != 2, want != "" && (len(got) != 3 || got[2].Source != path || got[2].Destination != want):
			t.Errorf("%s: %+v, want %q", path, got, want)
		}
	}
}
