package app

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
)

// JobNames holds the names in a job for shell completion.
type JobNames struct{ Agents, Datasets, Tasks []string }

// NamesOf returns the names in a job file or in a directory of tasks. It reads no registry and no
// task, so the names in registries are missing. Errors yield no names, because a completion cannot
// report them. Names that a terminal would not show as they are are left out.
func NamesOf(h *Host, file string) JobNames {
	var out JobNames
	add := func(dirs []string, toTasks bool) {
		for _, dir := range dirs {
			if toTasks {
				out.Tasks = append(out.Tasks, filepath.Base(dir))
				continue
			}
			entries, _ := os.ReadDir(dir)
			fsys := os.DirFS(dir)
			for _, e := range entries {
				if is, err := task.IsTask(fsys, e.Name()); err == nil && is {
					out.Tasks = append(out.Tasks, e.Name())
				}
			}
		}
	}
	if req := (JobRequest{File: file, unused: true}); !req.hasJobFile(h.Paths) {
		dir := h.Path(file)
		single, _ := task.IsTask(os.DirFS(dir), ".")
		add([]string{dir}, single)
	} else if file != "-" { // completion never reads standard input
		opts, err := loadOptions(h, req)
		if err != nil {
			return out
		}
		loaded, err := config.Load(file, opts)
		if err != nil {
			return out
		}
		for _, a := range loaded.Job.Agents {
			out.Agents = append(out.Agents, a.Name)
		}
		for _, d := range loaded.Job.Datasets {
			out.Datasets = append(out.Datasets, d.Name)
		}
		add(slices.DeleteFunc(slices.Clone(loaded.DatasetDirs), func(dir string) bool { return dir == "" }), false)
		add(loaded.TaskDirs, true)
	}
	out.Agents = append(out.Agents, agent.Oracle, agent.Nop)
	out.Agents, out.Datasets, out.Tasks = printable(out.Agents), printable(out.Datasets), printable(out.Tasks)
	return out
}

// printable returns the names that are safe to print, sorted and without duplicates.
func printable(names []string) []string {
	names = slices.DeleteFunc(names, func(name string) bool { return name == "" || clean(name) != name })
	slices.Sort(names)
	return slices.Compact(names)
}

// JobDirs returns the directories of jobs in dir, including dir itself. It checks only for their
// plans or results.
func JobDirs(paths Paths, dir string) []string {
	entries, _ := os.ReadDir(paths.Path(dir))
	var out []string
	for _, e := range entries {
		job := filepath.Join(dir, e.Name())
		if e.IsDir() && (isFile(paths.Path(filepath.Join(job, result.PlanFile))) || isFile(paths.Path(filepath.Join(job, result.ResultFile)))) {
			out = append(out, job)
		}
	}
	return printable(out)
}

// JobDir returns the directory of the job that a job file describes, or "" if it is unknown before
// the job begins. It contacts no registry.
func JobDir(h *Host, req JobRequest) string {
	if req.File == "-" || !req.hasJobFile(h.Paths) {
		return ""
	}
	opts, err := loadOptions(h, req)
	if err != nil {
		return ""
	}
	loaded, err := config.Load(req.File, opts)
	if err != nil || loaded.Unnamed || loaded.Numbered != nil {
		return ""
	}
	return filepath.Join(loaded.Job.JobsDir, loaded.Job.Name)
}

// RerunNames returns the values that --rerun accepts for a job's directory: AGENT/TASK, with the
// dataset if several contain the task. Names that are globs or that a shell could not show are left
// out.
func RerunNames(paths Paths, dir string) []string {
	plan, err := result.ReadPlan(paths.Path(dir))
	if err != nil {
		return nil
	}
	datasets := map[string][]string{} // by AGENT/TASK
	for _, k := range plan.Own() {
		short := k.Agent + "/" + k.Task
		if !slices.Contains(datasets[short], k.Dataset) {
			datasets[short] = append(datasets[short], k.Dataset)
		}
	}
	var names []string
	for _, k := range plan.Own() {
		name := k.Agent + "/" + k.Task
		if len(datasets[name]) > 1 {
			name = k.Agent + "/" + k.Dataset + "/" + k.Task
		}
		if !strings.ContainsAny(name, `*?[\`) {
			names = append(names, name)
		}
	}
	return printable(names)
}
