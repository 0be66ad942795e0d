package dataset

import (
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/registry"
	"github.com/org/rollout-action/internal/test/gittest"
)

// The job's format wins over the registry's; the default is Harbor's.
func TestFormatOfARegistry(t *testing.T) {
	s := newScene(t)
	id := s.repo.Commit("main", gittest.Tasks("a"))
	tasks := []registry.Task{s.task("a", id, "a")}
	s.write(registry.Dataset{Name: "silent", Tasks: tasks}, registry.Dataset{Name: "ours", Format: "rollout", Tasks: tasks},
		registry.Dataset{Name: "theirs", Format: "harbor", Tasks: tasks}, registry.Dataset{Name: "odd", Format: "Harbor", Tasks: tasks})
	for _, c := range []struct {
		name string
		job  task.Format
		want task.Format
	}{
		{"silent", "", task.FormatHarbor},
		{"ours", "", task.FormatRollout},
		{"theirs", "", task.FormatHarbor},
		{"silent", task.FormatRollout, task.FormatRollout},
		{"ours", task.FormatHarbor, task.FormatHarbor},
	} {
		ref := s.ref(c.name)
		ref.Options.Format = c.job
		set := s.load(s.source(), ref)[0]
		if set.Format != c.want || !slices.ContainsFunc(set.Tasks, func(t *task.Task) bool { return t.Format == c.want }) {
			t.Errorf("%s with %q in the job: %s, its task %s; want %s", c.name, c.job, set.Format, set.Tasks[0].Format, c.want)
		}
	}
	_, _, err := s.source().Load(t.Context(), []Ref{s.ref("odd")})
	if err == nil || !strings.Contains(err.Error(), `format of dataset odd must be rollout or harbor, not "Harbor"`) {
		t.Errorf("a format that does not exist: %v", err)
	}
}
