package app

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/inspect"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/task"
)

// JobNames holds the names in a job for shell completion.
type JobNames struct{ Agents, Datasets, Tasks []string }

// NamesOf returns the names in a job file or in a directory of tasks. It reads no registry and no
// task, so the names in registries are missing. Errors yield no names, because a completion cannot
// report them. Names that a terminal would not show as they are are left out.
func NamesOf(h *host.Host, file string) JobNames {
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
	if req := (stages.JobRequest{File: file, Unused: true}); !req.HasJobFile(h.Paths) {
		dir := h.Path(file)
		single, _ := task.IsTask(os.DirFS(dir), ".")
		add([]string{dir}, single)
	} else if file != "-" { // completion never reads standard input
		opts, err := stages.LoadOptions(h, req)
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
	out.Agents, out.Datasets, out.Tasks = inspect.Printable(out.Agents), inspect.Printable(out.Datasets), inspect.Printable(out.Tasks)
	return out
}

// JobDir returns the directory of the job that a job file describes, or "" if it is unknown before
// the job begins. It contacts no registry.
func JobDir(h *host.Host, req stages.JobRequest) string {
	if req.File == "-" || !req.HasJobFile(h.Paths) {
		return ""
	}
	opts, err := stages.LoadOptions(h, req)
	if err != nil {
		return ""
	}
	loaded, err := config.Load(req.File, opts)
	if err != nil || loaded.Unnamed || loaded.Numbered != nil {
		return ""
	}
	return filepath.Join(loaded.Job.JobsDir, loaded.Job.Name)
}
