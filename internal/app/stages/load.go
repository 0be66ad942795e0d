// Package stages has the stages of a job before its last one: Loaded, Planned and Opened. It loads
// a job file and its tasks, plans the trials, opens the job's directory with a provider, and runs
// the trials. Which trials run, and why, the packages that import it decide.
package stages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/ghvars"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/run/dataset"
	"github.com/org/rollout-action/internal/run/trial/agentfiles"
	"github.com/org/rollout-action/internal/run/trial/judging"
)

// Loaded is the first stage of a job: its file and its tasks are read and checked. Nothing is
// started yet.
type Loaded struct {
	*config.Loaded
	Host        *host.Host
	Path        string                      // the job file as it was given; "-" is standard input
	Getenv      func(string) (string, bool) // the variables for the job and its tasks
	unrun       bool                        // see JobRequest
	Implied     bool                        // there is no job file: the job was made for a directory of tasks
	Sets        []*dataset.Set
	AllTaskDirs []string // of all tasks, also of those that are filtered out
	// LeftBySelection are the agents and tasks that the job does not select; nil: there are none.
	LeftBySelection *result.NotSelected
	flagged         bool // by flags that change the work of the job file
	source          *dataset.Source
	Files           map[string]*agentfiles.Set // of the agents that have some
	Judges          *judging.Set               // nil: nothing is judged
	Release         func()                     // releases the sources of the job; nil: nothing to release
	recorded        map[string]string          // see recordings; nil: not read yet
	Settings        map[string]any             // provider_config, whose files of this machine may be executed
}

// Close releases the datasets.
func (l *Loaded) Close() {
	if l.source == nil { // the tasks are another job's
		l.closeFiles()
		return
	}
	_ = l.source.Close() // locks, which end with the process at the latest
	l.closeFiles()
}

func (l *Loaded) closeFiles() {
	if l.Release != nil {
		l.Release()
	}
	for _, set := range l.Files {
		_ = set.Close()
	}
}

// overrides returns the keys to change, in a fixed order, with Sets last.
func (r JobRequest) overrides() []config.Override {
	return append(r.Overrides[:len(r.Overrides):len(r.Overrides)], r.Sets...)
}

// LoadOptions returns the options for loading the job file.
func LoadOptions(h *host.Host, req JobRequest) (config.Options, error) {
	checks, aliases := map[string]config.ProviderCheck{}, map[string]string{}
	for _, p := range h.Providers {
		checks[p.Name] = p.Check
		for _, alias := range p.Aliases {
			aliases[alias] = p.Name
		}
	}
	getenv, err := jobVariables(h, req)
	if err != nil {
		return config.Options{}, err
	}
	opts := config.Options{
		Stdin: h.Stdin, Dir: h.Dir, Getenv: getenv, Now: h.Now, Providers: checks, ProviderAliases: aliases,
		Overrides: req.overrides(), OnlyAgents: req.Agents, Selection: req.Selection,
		Unused: req.Unused, PathsFrom: req.PathsFrom, Recorded: req.PathsFrom != "", Name: req.Name,
		Commit: func() string { return commit(h, req.File) },
	}
	if vars := ghvars.Read(h.Getenv); vars.Actions && vars.RunID != "" {
		opts.Run = vars.RunID + "-" + cmp.Or(vars.RunAttempt, "1")
	}
	if h.Guard != nil {
		opts.Admit = h.Guard.Admit
	}
	return opts, nil
}

// loadJob reads and checks a job file and its tasks.
func loadJob(ctx context.Context, h *host.Host, req JobRequest) (*Loaded, error) {
	opts, err := LoadOptions(h, req)
	if err != nil {
		return nil, err
	}
	file, err := config.Load(req.File, opts)
	if err != nil {
		return nil, err
	}
	return loadTasks(ctx, h, file, req.File, req, opts.Getenv)
}

// isTaskFile reports whether target is the configuration of a task. A task.yaml may be a job file.
func isTaskFile(h *host.Host, target string) bool {
	name, path := filepath.Base(target), h.Path(target)
	if name != "task.toml" && name != "task.yaml" || !host.IsFile(path) {
		return false
	}
	is, err := task.IsTask(os.DirFS(filepath.Dir(path)), ".")
	return name == "task.toml" || is && err == nil
}

// LoadTarget loads the job of a request: a job file, or the job implied by the tasks that it names.
// If the request names no agent for these, the fallback runs.
func LoadTarget(ctx context.Context, h *host.Host, req JobRequest, fallback ...agent.Agent) (*Loaded, error) {
	target := req.File
	if isTaskFile(h, target) {
		return nil, diag.List{{File: target, Message: "is a file of a task, not a job file", Hint: "give the task's directory: " + filepath.Dir(target)}}
	}
	if req.HasJobFile(h.Paths) {
		if err := req.refuseWithJobFile(); err != nil {
			return nil, err
		}
		return loadJob(ctx, h, req)
	}
	job, from, err := impliedJob(h.Paths, req, fallback)
	if err != nil {
		return nil, err
	}
	req.Agents = nil // they are in the job
	opts, err := LoadOptions(h, req)
	if err != nil {
		return nil, err
	}
	opts.Commit = func() string { return commit(h, from) }
	file, err := config.LoadImplied(job, opts)
	if err != nil {
		return nil, err
	}
	req.implied = true
	return loadTasks(ctx, h, file, from, req, opts.Getenv)
}

// OracleAndNop returns the agents that prove tasks.
func OracleAndNop() []agent.Agent { return []agent.Agent{{Name: agent.Oracle}, {Name: agent.Nop}} }

// loadTasks loads the tasks of a job. path is the job file or, without one, its hypothetical
// location; getenv looks up the variables that the tasks may use.
func loadTasks(ctx context.Context, h *host.Host, file *config.Loaded, path string, req JobRequest, getenv func(string) (string, bool)) (_ *Loaded, err error) {
	if h.OnLoad != nil {
		if err := h.OnLoad(file); err != nil {
			return nil, err
		}
	}
	settings, err := Settings(h, file.Job.Environment)
	if err != nil {
		return nil, err
	}
	l := &Loaded{Loaded: file, Implied: req.implied, Host: h, Path: path, Getenv: getenv, Settings: settings, unrun: req.Unrun, flagged: req.changesJob(), source: host.NewSource(h.Variables, h.Guard, h.Output)}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	sets, warnings, err := l.loadSets(ctx)
	if list := (diag.List{}); errors.As(err, &list) {
		files := diag.List{}
		_ = errors.As(l.LoadAgentFiles(ctx), &files) // to report all problems at once
		return nil, slices.Concat(file.Warnings, list, files)
	}
	if err != nil {
		return nil, err
	}
	if err := l.LoadAgentFiles(ctx); err != nil {
		return nil, err
	}
	l.Warnings = append(l.Warnings, warnings...)
	if err := l.Warnings.Err(); err != nil {
		return nil, err
	}
	names := taskNames(sets)
	kept, total := make([]*dataset.Set, len(sets)), 0
	for i, set := range sets {
		l.AllTaskDirs = append(l.AllTaskDirs, set.Directories...)
		for _, t := range set.Tasks {
			l.AllTaskDirs = append(l.AllTaskDirs, t.Dir)
		}
		kept[i] = set.Filter(l.Job.IncludeTasks, l.Job.ExcludeTasks)
		total += len(kept[i].Tasks)
	}
	if total == 0 {
		return nil, host.Usagef("%s: %s%s: %s", host.Clean(l.File), noneLeft(l.Job, req), meantTask(l.Job, sets), strings.Join(names, ", "))
	}
	l.Sets, l.LeftBySelection = kept, l.leftBySelection(sets, kept)
	if l.LeftBySelection != nil {
		l.LeftBySelection.ByFlags = req.selectsTasks()
	}
	if !req.noJudges {
		if err := l.CheckJudges(req); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// selectsTasks reports whether flags select tasks or datasets.
func (r JobRequest) selectsTasks() bool {
	s := r.Selection
	return len(s.Datasets)+len(s.Metadata) > 0 || s.NTasks != nil || slices.ContainsFunc(r.overrides(), func(o config.Override) bool {
		return o.Path == "include_tasks" || o.Path == "exclude_tasks"
	})
}

// changesJob reports whether flags change the work of the job file.
func (r JobRequest) changesJob() bool {
	return r.selectsTasks() || len(r.Agents) > 0 || r.Selection.Seed != nil || slices.ContainsFunc(r.overrides(), func(o config.Override) bool {
		return !slices.Contains([]string{"name", "jobs_dir", "n_concurrent_trials"}, o.Path)
	})
}

// leftBySelection returns the agents and tasks that the job's selection leaves out; nil if it
// leaves out none.
func (l *Loaded) leftBySelection(all, kept []*dataset.Set) *result.NotSelected {
	out := &result.NotSelected{Agents: l.NotSelected.Agents, Datasets: l.NotSelected.Datasets}
	chosen := map[result.TaskName]bool{}
	for _, set := range kept {
		for _, t := range set.Tasks {
			chosen[result.TaskName{Dataset: set.Name, Task: t.Name}] = true
		}
	}
	for _, set := range all {
		for _, name := range set.Names() {
			if n := (result.TaskName{Dataset: set.Name, Task: name}); !chosen[n] {
				out.Tasks = append(out.Tasks, n)
			}
		}
	}
	if len(out.Agents)+len(out.Datasets)+len(out.Tasks) == 0 {
		return nil
	}
	slices.SortFunc(out.Tasks, result.TaskName.Compare)
	out.Tasks = slices.Compact(out.Tasks)
	return out
}

// Settings returns the provider_config of a job, whose files of this machine may be executed.
func Settings(h *host.Host, of config.Environment) (map[string]any, error) {
	if h.Guard == nil {
		return of.ProviderConfig, nil
	}
	entry, _ := h.Providers.Find(of.Type) // config.Load has checked the name
	return h.Guard.Settings(entry.Keys, of.ProviderConfig)
}

// noneLeft names the setting that leaves the job without tasks, as the user wrote it: a flag, or a
// key of the job file.
func noneLeft(job config.Job, req JobRequest) string {
	var filters []string
	for _, f := range []struct {
		key   string
		globs []string
	}{{"include_tasks", job.IncludeTasks}, {"exclude_tasks", job.ExcludeTasks}} {
		if len(f.globs) > 0 {
			filters = append(filters, req.origin(f.key)+" "+host.Joined(f.globs))
		}
	}
	if len(filters) == 1 && len(job.IncludeTasks) > 0 {
		return filters[0] + " matches none of the tasks"
	}
	leave := "leaves"
	if len(filters) > 1 {
		leave = "leave"
	}
	return strings.Join(filters, " and ") + " " + leave + " none of the tasks"
}

// meantTask returns a question with the task that the user probably meant by one of include_tasks,
// or "" if none is similar.
func meantTask(job config.Job, sets []*dataset.Set) string {
	var all []string
	for _, set := range sets {
		all = append(all, set.Names()...)
	}
	for _, glob := range job.IncludeTasks {
		if slices.Contains(all, glob) {
			continue // exclude_tasks leaves it out
		}
		if near := diag.Nearest(glob, all); near != "" {
			return fmt.Sprintf(" (did you mean %q?)", host.Clean(near))
		}
	}
	return ""
}

// loadSets loads the datasets and single tasks of a job, and records in the job the formats that it
// left open.
func (l *Loaded) loadSets(ctx context.Context) ([]*dataset.Set, diag.List, error) {
	l.source.Include, l.source.Exclude = l.Job.IncludeTasks, l.Job.ExcludeTasks
	refs := make([]dataset.Ref, len(l.Job.Datasets))
	for i, ds := range l.Job.Datasets {
		at := l.DatasetAt[i]
		refs[i] = dataset.Ref{
			Name: ds.Name, Dir: l.DatasetDirs[i], Registry: l.Registries[i], Version: ds.Version,
			Options: l.taskOptions(ds.Format),
			Select: dataset.Selection{
				Include: ds.Tasks, Exclude: ds.ExcludeTasks, Metadata: ds.Metadata, N: ds.NTasks, Seed: ds.Seed,
			},
			Place: diag.Diagnostic{File: at.File, Line: at.Line, Column: at.Column},
		}
	}
	sets, warnings, err := l.source.Load(ctx, refs)
	if err != nil {
		return nil, nil, err
	}
	for i, set := range sets {
		if open := settle(&l.Job.Datasets[i].Format, set); open {
			warnings = append(warnings, madeForHarbor(ctx, set, l.DatasetAt[i], "format")...)
		}
	}
	if len(l.TaskDirs) > 0 {
		set, err := dataset.FromPaths(ctx, config.TasksDataset, l.TaskDirs, l.taskOptions(l.Job.TasksFormat))
		if err != nil {
			return nil, nil, err
		}
		if open := settle(&l.Job.TasksFormat, set); open {
			warnings = append(warnings, madeForHarbor(ctx, set, config.Place{File: l.File}, "tasks_format")...)
		}
		sets = append(sets, set)
	}
	return sets, warnings, ctx.Err()
}

// taskOptions returns the options with which the job loads tasks of a format.
func (l *Loaded) taskOptions(format config.Format) task.Options {
	return task.Options{Format: task.Format(format), PassEnv: l.Job.Environment.PassEnv, Getenv: l.Getenv, Unrun: l.unrun, NoJob: l.unrun && l.Implied}
}

// Tasks returns the tasks of the job, in its order.
func (l *Loaded) Tasks() []*task.Task {
	var tasks []*task.Task
	for _, set := range l.Sets {
		tasks = append(tasks, set.Tasks...)
	}
	return tasks
}

// taskNames returns the names of the first few tasks, for a message.
func taskNames(sets []*dataset.Set) []string {
	var names []string
	for _, set := range sets {
		for _, name := range set.Names() {
			if len(names) == 20 {
				return append(names, "…")
			}
			names = append(names, host.Clean(name))
		}
	}
	return names
}

// settle records in the job the format in which a set was loaded, for config.json. It reports
// whether the job had left the format open.
func settle(format *config.Format, set *dataset.Set) bool {
	open := *format == ""
	*format = config.Format(set.Format)
	return open
}

// madeForHarbor warns of tasks on disk that are read by Rollout's rules, because no format is
// given, but look made for Harbor: at least half of the readable ones show a sign of it.
func madeForHarbor(ctx context.Context, set *dataset.Set, at config.Place, key string) diag.List {
	if set.Format != task.FormatRollout {
		return nil
	}
	found := make([]string, len(set.Tasks))
	_ = EachTask(ctx, "Reading tasks", set.Tasks, func(i int, t *task.Task) { // the caller checks ctx
		if !t.Missing {
			found[i] = t.HarborSign()
		}
	})
	signs, readable, first := 0, 0, ""
	for i, t := range set.Tasks {
		if t.Missing {
			continue
		}
		readable++
		if sign := found[i]; sign != "" {
			signs++
			first = cmp.Or(first, fmt.Sprintf("%s: %s", t.Name, sign))
		}
	}
	if signs == 0 || 2*signs < readable {
		return nil
	}
	return diag.List{{
		File: at.File, Line: at.Line, Column: at.Column, Severity: diag.Warning,
		Message: host.Clean(fmt.Sprintf("%d of %s of dataset %q look made for Harbor (%s), and are read by Rollout's rules", signs, plural.Count(readable, "task"), set.Name, first)),
		Hint:    fmt.Sprintf("say %s: harbor, or rollout if that is right; validate of a directory: --task-format harbor", key),
	}}
}

// EachTask calls do concurrently for every task. The error is that of ctx: when it ends, no further
// task begins.
func EachTask(ctx context.Context, what string, tasks []*task.Task, do func(i int, t *task.Task)) error {
	work := event.Begin(ctx, what, len(tasks))
	defer work.End()
	var group errgroup.Group
	group.SetLimit(2 * runtime.GOMAXPROCS(0)) // reading files is mostly system calls
	for i, t := range tasks {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			do(i, t)
			work.Step()
			return nil
		})
	}
	_ = group.Wait() // the functions return nil
	return ctx.Err()
}
