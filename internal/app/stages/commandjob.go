package stages

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/diag"
)

// OwnAgent is an agent that a command line describes.
type OwnAgent struct {
	Files            []string // as agent.File's Source
	Install, Execute string
	Env              []string // NAME=VALUE, or NAME for the variable of the host
	CacheInstall     bool
}

// given reports whether an agent is described.
func (o OwnAgent) given() bool {
	return len(o.Files)+len(o.Env) > 0 || o.Install != "" || o.Execute != "" || o.CacheInstall
}

// HasJobFile reports whether a request names a job file rather than tasks on the command line.
func (r JobRequest) HasJobFile(paths host.Paths) bool {
	if r.Registry != "" || len(r.More) > 0 {
		return false
	}
	return r.File == "-" || !host.IsDir(paths.Path(r.File))
}

// refuseWithJobFile refuses options that only apply without a job file.
func (r JobRequest) refuseWithJobFile() error {
	switch {
	case r.TaskFormat != "":
		return host.Usagef("--task-format is for a directory of tasks; a job file says it itself, with datasets[].format and tasks_format")
	case r.Own.given():
		return host.Usagef("--files, --install, --execute, --agent-env and --cache-install describe an agent for a directory of tasks; %s is a job file: write the agent there", r.File)
	}
	return nil
}

// impliedJob returns the job that a request describes without a job file. from is a path in the
// repository of the tasks. If the request names no agent, the fallback runs.
func impliedJob(paths host.Paths, req JobRequest, fallback []agent.Agent) (job config.Implied, from string, err error) {
	targets := append([]string{req.File}, req.More...)
	job = config.Implied{Name: strings.Join(targets, " "), Format: config.Format(req.TaskFormat), Origin: "--task-format " + req.TaskFormat}
	from = paths.Path("task.toml") // whose directory counts
	for _, target := range targets {
		if req.Registry != "" {
			job.Datasets = append(job.Datasets, fromRegistry(req.Registry, target))
			continue
		}
		abs, err := filepath.Abs(paths.Path(target))
		if err != nil {
			return job, "", fmt.Errorf("find %s: %w", target, err)
		}
		if !host.IsDir(abs) {
			return job, "", host.Usagef("%s is not a directory of tasks: give one job file, or directories", host.Clean(target))
		}
		single, err := task.IsTask(os.DirFS(abs), ".")
		if err != nil {
			return job, "", err
		}
		if single {
			job.Tasks = append(job.Tasks, target)
		} else {
			if err := notAJob(target, abs); err != nil && len(fallback) == 0 { // whoever checks tasks means no job file
				return job, "", err
			}
			job.Datasets = append(job.Datasets, config.Dataset{Path: target})
		}
		from = filepath.Join(abs, "task.toml")
	}
	job.Agents, err = req.impliedAgents(fallback)
	return job, from, err
}

// notAJob refuses a directory that has a job file and no tasks.
func notAJob(target, abs string) error {
	entries, err := os.ReadDir(abs)
	if err != nil {
		return fmt.Errorf("read %s: %w", target, err)
	}
	file := ""
	for _, e := range entries {
		if is, err := task.IsTask(os.DirFS(abs), e.Name()); err == nil && is {
			return nil
		}
		if name := e.Name(); name == "job.yaml" || name == "job.yml" || name == "job.json" {
			file = name
		}
	}
	if file == "" {
		return nil // the dataset reports it
	}
	return diag.List{{File: target, Message: "is a directory without tasks", Hint: "did you mean " + filepath.Join(target, file) + "?"}}
}

// Save writes the job into a new job file, if one was requested.
func (l *Loaded) Save(file string) error {
	if file == "" {
		return nil
	}
	path, err := filepath.Abs(l.Host.Path(file))
	if err != nil {
		return fmt.Errorf("find %s: %w", file, err)
	}
	job := l.Job
	job.Name = l.NameAsWritten
	text, err := config.YAML(job, l.PathsFrom, filepath.Dir(path))
	if err != nil {
		return err
	}
	err = host.WriteNew(path, text, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return host.Usagef("--save-job %s: the file exists already, and nothing was written: name another one", file)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return host.Usagef("--save-job %s: there is no directory %s: make it first, or name another file", file, filepath.Dir(file))
	}
	if err != nil {
		return fmt.Errorf("--save-job %s: write the job file: %w", file, err)
	}
	host.Linef(l.Host.Output, "wrote %s", host.Clean(file))
	return nil
}

// fromRegistry returns the dataset of a registry that NAME or NAME@VERSION names.
func fromRegistry(registry, target string) config.Dataset {
	name, version, _ := strings.Cut(target, "@")
	ds := config.Dataset{Name: name, Version: version, Registry: &config.Registry{Path: registry}}
	if strings.Contains(registry, "://") {
		ds.Registry = &config.Registry{URL: registry}
	}
	return ds
}

// impliedAgents returns the agents of a job without a job file: the named built-in ones and that of
// the command line, which may also be named.
func (r JobRequest) impliedAgents(fallback []agent.Agent) ([]agent.Agent, error) {
	var agents []agent.Agent
	own := ""
	for _, name := range r.Agents {
		a := agent.Agent{Name: name}
		switch {
		case a.Reserved():
			agents = append(agents, a)
		case !r.Own.given():
			return nil, host.Usagef("--agent %s: without a job file there are only %s and %s; --execute describes your own agent", host.Clean(name), agent.Oracle, agent.Nop)
		case own != "" && own != name:
			return nil, host.Usagef("--agent %s and --agent %s: --execute describes one agent; write a job file for several", host.Clean(own), host.Clean(name))
		default:
			own = name
		}
	}
	if !r.Own.given() {
		if len(agents) == 0 {
			agents = fallback
		}
		if len(agents) == 0 {
			return nil, host.Usagef("no agent is named: give --agent oracle, or --execute with the script that runs yours")
		}
		return agents, nil
	}
	if own == "" {
		own = "agent"
	}
	a := agent.Agent{Name: own, Install: r.Own.Install, Execute: r.Own.Execute, Env: map[string]string{}}
	if r.Own.CacheInstall {
		a.CacheInstall = new(true)
	}
	for _, source := range r.Own.Files {
		a.Files = append(a.Files, agent.File{Source: source, Gitignore: true})
	}
	for _, variable := range r.Own.Env {
		name, value, ok := strings.Cut(variable, "=")
		if !ok {
			value = "${" + name + "}"
		}
		a.Env[name] = value
	}
	return append([]agent.Agent{a}, agents...), nil
}
