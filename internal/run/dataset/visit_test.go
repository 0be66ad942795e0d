package dataset

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/registry"
)

// visit returns the visited tasks by name.
func (s *scene) visit(ctx context.Context, src *Source, reg *registry.Registry, d *registry.Dataset) (map[string]Visited, error) {
	var mu sync.Mutex
	got := map[string]Visited{}
	err := src.Visit(ctx, reg, d, task.Options{Unrun: true, NoJob: true}, func(v Visited) {
		mu.Lock()
		defer mu.Unlock()
		got[v.Name] = v
	})
	return got, err
}

func TestVisitSeesAllTasksOfADataset(t *testing.T) {
	s := newScene(t)
	id := s.hub(manifestText)
	src := s.source()
	reg, err := src.LoadRegistry(t.Context(), "git+"+s.server.URL+"/tasks.git@"+id)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.visit(t.Context(), src, reg, &reg.Datasets[0])
	if err != nil || !slices.Equal(slices.Sorted(maps.Keys(got)), []string{"one", "three", "two"}) {
		t.Fatalf("%v, %v", got, err)
	}
	if got["one"].Task.Err() != nil || got["one"].Task.Format != task.FormatHarbor || got["two"].Problem != nil {
		t.Errorf("%+v", got)
	}
	if p := got["three"].Problem; p == nil || !strings.Contains(p.Message, "only Harbor's servers have it") {
		t.Errorf("a task without files: %v", p)
	}
}

func TestVisitOfAnInvalidDataset(t *testing.T) {
	s := newScene(t)
	id := s.repo.Commit("main", map[string]string{"README.md": "no task"})
	s.write(
		registry.Dataset{Name: "good", Tasks: []registry.Task{s.task("gone", id, "tasks/gone"), s.task("up", id, "../up")}},
		registry.Dataset{Name: "twice", Tasks: []registry.Task{s.task("a", id, "a"), s.task("a", id, "a")}},
		registry.Dataset{Name: "far", Tasks: []registry.Task{{Name: "a", GitURL: s.server.URL + "/nowhere.git", GitCommitID: "main", Path: "a"}}},
	)
	src := s.source()
	reg, err := src.LoadRegistry(t.Context(), s.registry)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.visit(t.Context(), src, reg, &reg.Datasets[0])
	if err != nil || len(got) != 2 || !got["gone"].Task.Missing || got["up"].Problem == nil {
		t.Errorf("%v, %v", got, err)
	}
	for _, d := range []*registry.Dataset{&reg.Datasets[1], &reg.Datasets[2]} {
		if got, err := s.visit(t.Context(), src, reg, d); err == nil || len(got) > 0 {
			t.Errorf("%s: %v", d.Name, got)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.visit(ended, src, reg, &reg.Datasets[0]); !errors.Is(err, context.Canceled) {
		t.Errorf("after a cancellation: %v", err)
	}
}
