package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/lib/diag"
)

var both = []agent.Agent{{Name: agent.Oracle}, {Name: agent.Nop}}

func implied(name, dir string, format config.Format) config.Implied {
	return config.Implied{Name: name, Agents: both, Datasets: []config.Dataset{{Path: dir}}, Format: format, Origin: "--task-format " + string(format)}
}

func TestLoadImplied(t *testing.T) {
	dir := directory(t, nil)
	evals := filepath.Join(dir, "evals: {not YAML}")
	if err := os.Mkdir(evals, 0o755); err != nil {
		t.Fatal(err)
	}
	loaded, err := config.LoadImplied(implied("evals", evals, "harbor"), options(dir))
	if err != nil {
		t.Fatal(err)
	}
	if loaded.File != "evals" || len(loaded.Job.Agents) != 2 || !reflect.DeepEqual(loaded.DatasetDirs, []string{evals}) || loaded.Job.Datasets[0].Format != "harbor" {
		t.Errorf("%s, agents %+v, datasets %q %+v", loaded.File, loaded.Job.Agents, loaded.DatasetDirs, loaded.Job.Datasets)
	}
	loaded, err = config.LoadImplied(config.Implied{Name: "one", Agents: both, Tasks: []string{evals}}, options(dir))
	if err != nil || !reflect.DeepEqual(loaded.TaskDirs, []string{evals}) || len(loaded.Job.Datasets) != 0 || loaded.Job.TasksFormat != "" {
		t.Errorf("a single task: %+v, %v", loaded, err)
	}
	_, err = config.LoadImplied(implied("one", evals, "habor"), options(dir))
	var problems diag.List
	if !errors.As(err, &problems) || len(problems) != 1 || !strings.HasPrefix(problems[0].String(), "--task-format habor: ") {
		t.Errorf("a wrong format: %v", err)
	}
}

// A literal keeps its type, even if YAML would read its text as another one.
func TestLiteralOverrides(t *testing.T) {
	dir := directory(t, nil)
	opts := options(dir)
	opts.Stdin = strings.NewReader(strings.Replace(overridden, "NOT_SET", "API_KEY", 1))
	opts.Overrides = []config.Override{
		{Path: "n_attempts", Literal: 3, Origin: "--n-attempts"}, {Path: "name", Literal: "2026", Origin: "--name"},
		{Path: "include_tasks", Literal: []string{"*a", "7", "b: c"}, Origin: "--task"},
	}
	loaded, err := config.Load("-", opts)
	if err != nil {
		t.Fatal(err)
	}
	if j := loaded.Job; j.NAttempts != 3 || j.Name != "2026" || !reflect.DeepEqual(j.IncludeTasks, []string{"*a", "7", "b: c"}) {
		t.Errorf("%d attempts, name %q, tasks %q", j.NAttempts, j.Name, j.IncludeTasks)
	}
	opts.Stdin = strings.NewReader(overridden)
	opts.Overrides[0].Literal = 0
	if _, err := config.Load("-", opts); err == nil || !strings.Contains(err.Error(), "--n-attempts: n_attempts must be at least 1, not 0") {
		t.Errorf("no attempts: %v", err)
	}
}
