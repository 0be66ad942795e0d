package inspect

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/result"
)

// Printable returns the names that are safe to print, sorted and without duplicates.
func Printable(names []string) []string {
	names = slices.DeleteFunc(names, func(name string) bool { return name == "" || host.Clean(name) != name })
	slices.Sort(names)
	return slices.Compact(names)
}

// JobDirs returns the directories of jobs in dir, including dir itself. It checks only for their
// plans or results.
func JobDirs(paths host.Paths, dir string) []string {
	entries, _ := os.ReadDir(paths.Path(dir))
	var out []string
	for _, e := range entries {
		job := filepath.Join(dir, e.Name())
		if e.IsDir() && (host.IsFile(paths.Path(filepath.Join(job, result.PlanFile))) || host.IsFile(paths.Path(filepath.Join(job, result.ResultFile)))) {
			out = append(out, job)
		}
	}
	return Printable(out)
}

// RerunNames returns the values that --rerun accepts for a job's directory: AGENT/TASK, with the
// dataset if several contain the task. Names that are globs or that a shell could not show are left
// out.
func RerunNames(paths host.Paths, dir string) []string {
	plan, err := result.ReadPlan(paths.Path(dir))
	if err != nil {
		return nil
	}
	datasets := map[string][]string{} // by AGENT/TASK
	for _, k := range plan.Own().All() {
		short := k.Agent + "/" + k.Task
		if !slices.Contains(datasets[short], k.Dataset) {
			datasets[short] = append(datasets[short], k.Dataset)
		}
	}
	var names []string
	for _, k := range plan.Own().All() {
		name := k.Agent + "/" + k.Task
		if len(datasets[name]) > 1 {
			name = k.Agent + "/" + k.Dataset + "/" + k.Task
		}
		if !strings.ContainsAny(name, `*?[\`) {
			names = append(names, name)
		}
	}
	return Printable(names)
}
