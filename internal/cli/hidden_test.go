package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers"
)

// hides runs a command line in dir and returns what the provider is told to hide, below root.
func hides(t *testing.T, root, dir string, code int, args ...string) []string {
	t.Helper()
	var hidden []string
	withProvider(t, func(_ context.Context, _ map[string]any, host providers.Host) (environment.Provider, error) {
		hidden = host.Hide
		return newTried(), nil
	})
	rollout(t, t.Context(), nil, dir, args...).check(t, code)
	if !slices.IsSorted(hidden) || len(slices.Compact(slices.Clone(hidden))) != len(hidden) {
		t.Errorf("not sorted, or not unique: %q", hidden)
	}
	var below []string
	for _, path := range hidden {
		name, err := filepath.Rel(root, path)
		if err != nil || !filepath.IsAbs(path) || filepath.Clean(path) != path {
			t.Errorf("%q is no clean absolute path: %v", path, err)
		}
		below = append(below, name)
	}
	return below
}

// realDir is a directory of the test that is reached through no link.
func realDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestEnvironmentsMayNotShowTheJobsFiles(t *testing.T) {
	root := realDir(t)
	dir := filepath.Join(root, "here")
	writeTask(t, root, "there/evals/one")
	writeTask(t, root, "store/two")
	writeTask(t, root, "alone/three")
	write(t, root, "there/job.yaml", `name: nightly
environment: {type: tried}
agents: [{name: nop}]
datasets: [{path: evals}]
tasks: [../alone/three, ../gone]
exclude_tasks: [two]
`)
	for link, target := range map[string]string{"there/evals/two": "../../store/two", "linked": "there", "here": "work", "work/jobs": "../results"} {
		at := filepath.Join(root, link)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.Symlink(target, at)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(root, "results"), 0o755); err != nil {
		t.Fatal(err)
	}
	// The task that is missing fails its trial, so the code is 1.
	got := hides(t, root, dir, command.ExitGate, "../linked/job.yaml")
	want := []string{
		"alone/three", "gone",
		"here", "here/jobs", "here/jobs/nightly",
		"linked/evals", "linked/evals/one", "linked/evals/two", "linked/job.yaml",
		"results", "results/nightly",
		"store/two",
		"there/evals", "there/evals/one", "there/job.yaml",
		"work",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

func TestAJobFromStandardInputHasNoFileToHide(t *testing.T) {
	dir := realDir(t)
	writeTask(t, dir, "evals/one")
	got := hides(t, dir, dir, command.ExitOK, "run", "-", "--jobs-dir", "out")
	if want := []string{".", "evals", "evals/one", "out", "out/nightly"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCleaningUpHidesNothing(t *testing.T) {
	dir := jobDir(t)
	if got := hides(t, dir, dir, command.ExitOK, "clean", "--env-type", "tried"); len(got) > 0 {
		t.Errorf("got %q, want nothing: no environment is made", got)
	}
}
