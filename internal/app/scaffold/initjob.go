package scaffold

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/inspect"
	"github.com/org/rollout-action/internal/app/proof"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/agent/presets"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/run/registry"
)

// InitRequest is the request of Init.
type InitRequest struct {
	Dir      string
	Provider string // by name; "": the default one
	// Tasks is a directory of tasks, one task, or a dataset of a registry: NAME@VERSION, or
	// "REGISTRY NAME[@VERSION]" of a registry at a path or a URL. "": an example is written.
	Tasks string
	// Agent is the name of a custom agent, for which a first script is written. agent.Oracle: none;
	// "": ExampleAgent.
	Agent string
	// Preset is an agent that is ready to run, instead of Agent. "": if Agent is "", too, the agent
	// for which the repository has files, if there is one (see FindSetup).
	Preset string
}

// Initialised is the result of Init. All paths are relative to the current directory.
type Initialised struct {
	Written []string // the files that were written or, of .gitignore, added to
	// Kept is the workflow if it was there already and so does not run the job; "" otherwise.
	Kept string
	// Job is the job file's path in its repository, which has the workflow at its top; "" if there
	// is no repository, and the workflow was written next to the job file.
	Job      string
	Example  bool              // the task is the example
	Provider Choice            // what was chosen if the request has no provider
	Broken   map[string]string // the tasks that were left out, with the reasons
	Setup    Setup             // the files for agents that the job compares with none
	// Unset are the variables that the job's agents need and that are not set here.
	Unset []string
}

// ExampleAgent is the name of the agent that Init writes.
const ExampleAgent = "my-agent"

// CheckInitDir refuses a directory in which Init would write nothing, whatever the other choices.
func CheckInitDir(h *host.Host, dir string) error {
	return errors.Join(refuseExisting(h.Paths, dir, "job.yaml"), outsideOfGit(h, dir))
}

// CheckInitProvider refuses an unknown provider.
func CheckInitProvider(h *host.Host, name string) error {
	if _, ok := h.Providers.Find(name); !ok && name != "" {
		return host.Usagef("there is no provider %s: want %s", host.Clean(name), strings.Join(h.Providers.Names(), " or "))
	}
	return nil
}

var agentName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]{0,63}$`)

// CheckInitAgent refuses a name that no custom agent can have.
func CheckInitAgent(name string) error {
	switch {
	case name == "" || name == agent.Oracle:
		return nil
	case name == agent.Nop:
		return host.Usagef("%s does nothing and is in every job that rollout init writes: give %s, or a name for your agent", agent.Nop, agent.Oracle)
	case slices.Contains(presets.Names(), name):
		return host.Usagef("%s is an agent that is ready to run: take --preset %s, or another name for yours", name, name)
	case !agentName.MatchString(name):
		return host.Usagef("%s is no name for an agent: want a letter, then letters, digits and . _ -", host.Clean(name))
	}
	return nil
}

// InitTasks describes the tasks that Init is given. The zero InitTasks is the example.
type InitTasks struct {
	path       string      // relative to the job's directory, with forward slashes
	single     bool        // it is one task
	format     task.Format // "": the default one
	noSolution int
	broken     map[string]string // tasks that cannot run, with the reasons
	dataset    *config.Dataset   // of a registry, instead of path
}

// taskChoices lists the possible values of InitRequest.Tasks, for error messages.
const taskChoices = "a directory of tasks, NAME@VERSION of Harbor's registry, or a registry (its path, its URL, or a repository as org/name@ref) and NAME@VERSION"

// initDataset splits the reference to a registry's dataset; false if text is none.
func initDataset(text string) (registryAt, label string, ok bool) {
	switch fields := strings.Fields(text); {
	case len(fields) == 2:
		return fields[0], fields[1], true
	case len(fields) != 1:
		return "", "", false
	case registry.IsURL(text), strings.HasPrefix(text, "git+"):
		return text, "", true
	}
	_, version := registry.SplitLabel(text)
	return registry.DefaultURL, text, version != ""
}

// checkInitDataset returns the dataset of a registry that a reference names. Its tasks are not
// read.
func checkInitDataset(ctx context.Context, h *host.Host, dir, where, label string) (InitTasks, error) {
	var none InitTasks
	if label == "" {
		return none, host.Usagef("%s is a registry: name one of its datasets, too, as in: REGISTRY NAME@VERSION", host.Clean(where))
	}
	source, reg, err := inspect.OpenRegistry(ctx, h, where)
	if err != nil {
		if ctx.Err() != nil {
			return none, ctx.Err()
		}
		return none, host.Usagef("%s of a registry: %w", host.Clean(label), err) // another answer may help
	}
	defer source.Close()
	d, err := inspect.FindDataset(reg, label)
	if err != nil {
		return none, err
	}
	ds := config.Dataset{Name: d.Name, Version: d.Version, Registry: &config.Registry{URL: where}}
	if !inspect.IsAddress(h.Paths, where) {
		if err := insideRepository(h, dir, where, "copy the file into the repository, or give its URL"); err != nil {
			return none, err
		}
		path, err := fromJob(h, dir, where)
		if err != nil {
			return none, err
		}
		ds.Registry = &config.Registry{Path: path}
	}
	for _, t := range d.Tasks {
		if t.Absent != "" {
			ds.ExcludeTasks = append(ds.ExcludeTasks, t.Name)
		}
	}
	if n := len(d.Tasks); len(ds.ExcludeTasks) == n {
		return none, host.Usagef("%s: the repository has none of its tasks: only Harbor's servers have them", host.Clean(label))
	}
	for _, text := range append([]string{ds.Name, ds.Version, ds.Registry.URL}, ds.ExcludeTasks...) {
		if strings.Contains(text, "$") || host.Clean(text) != text {
			return none, host.Usagef("%s: no job file can name such a dataset", host.Clean(label))
		}
	}
	return InitTasks{dataset: &ds}, nil
}

// fromJob returns the path of a file or directory as written in a job file in dir.
func fromJob(h *host.Host, dir, path string) (string, error) {
	abs, err := filepath.Abs(h.Path(path))
	if err != nil {
		return "", fmt.Errorf("find %s: %w", path, err)
	}
	root, err := filepath.Abs(h.Path(dir))
	if err != nil {
		return "", fmt.Errorf("find %s: %w", dir, err)
	}
	rel, err := filepath.Rel(host.Resolved(root), host.Resolved(abs))
	if err != nil {
		return "", fmt.Errorf("find %s from %s: %w", path, dir, err)
	}
	if rel = filepath.ToSlash(rel); !utf8.ValidString(rel) || strings.Contains(rel, "$") {
		return "", host.Usagef("%s: no job file can name such a path", host.Clean(path))
	}
	return rel, nil
}

// CheckInitTasks reads a directory of tasks, or a registry, and refuses tasks that no job can run.
func CheckInitTasks(ctx context.Context, h *host.Host, dir, tasks string) (InitTasks, error) {
	var none InitTasks
	if tasks == "" {
		return none, nil
	}
	abs, err := filepath.Abs(h.Path(tasks))
	if err != nil {
		return none, fmt.Errorf("find %s: %w", tasks, err)
	}
	if !host.IsDir(abs) {
		if where, label, ok := initDataset(tasks); ok {
			return checkInitDataset(ctx, h, dir, where, label)
		}
		return none, host.Usagef("%s: there is no such directory (give %s; rollout mine makes tasks of a repository's history)", host.Clean(tasks), taskChoices)
	}
	single, err := task.IsTask(os.DirFS(abs), ".")
	if err != nil {
		return none, err
	}
	if err := insideRepository(h, dir, tasks, "move or copy the tasks into the repository, or put them into a registry"); err != nil {
		return none, err
	}
	rel, err := fromJob(h, dir, tasks)
	if err != nil {
		return none, err
	}
	// Of the formats, the one with fewer broken tasks is meant, then the one with fewer warnings:
	// the default one warns of tasks that look made for Harbor.
	var best *InitTasks
	var first error
	fewest := 0
	for _, format := range []task.Format{"", task.FormatHarbor} {
		found, err := proof.Validate(ctx, h, stages.JobRequest{File: tasks, TaskFormat: string(format)}, false)
		if ctx.Err() != nil {
			return none, ctx.Err()
		}
		broken := found.Broken
		if err == nil && (single || len(broken) == found.Tasks || !excludable(broken)) {
			err = found.Problems.Err()
		}
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		if n := len(found.Problems); best == nil || len(broken) < len(best.broken) || len(broken) == len(best.broken) && n < fewest {
			best, fewest = &InitTasks{path: rel, single: single, format: format, noSolution: found.NoSolution, broken: broken}, n
		}
	}
	if best != nil {
		return *best, nil
	}
	if problems := (diag.List)(nil); errors.As(first, &problems) && len(problems.Errors()) > 0 {
		p := problems.Errors()
		return none, host.Usagef("%s has %s; the first: %s", host.Clean(tasks), plural.Count(len(p), "problem"), host.Clean(p[0].String()))
	}
	return none, first
}

// excludable reports whether a job file can exclude tasks by their names, which are globs there.
func excludable(tasks map[string]string) bool {
	for name := range tasks {
		if strings.ContainsAny(name, `*?[]{}\!$`) || host.Clean(name) != name {
			return false
		}
	}
	return true
}

// CheckInit refuses a request that Init refuses whatever the tasks are.
func CheckInit(h *host.Host, req InitRequest) error {
	if req.Preset != "" && req.Agent != "" {
		return host.Usagef("--preset %s is an agent: leave out --agent", host.Clean(req.Preset))
	}
	if err := errors.Join(CheckInitProvider(h, req.Provider), CheckInitAgent(req.Agent), CheckInitPreset(req.Preset)); err != nil {
		return &host.UsageError{Err: err}
	}
	return CheckInitDir(h, req.Dir)
}

// Init writes a first job into a directory: a job file, a workflow and, unless there are tasks
// already, a dataset with one task. The workflow goes to the top of the repository that has the
// directory. It overwrites nothing: if one of the files exists, it writes none. Only a workflow
// that exists is kept, and lines are added to a .gitignore.
func Init(ctx context.Context, h *host.Host, req InitRequest) (done Initialised, err error) {
	if err := CheckInit(h, req); err != nil {
		return done, err
	}
	tasks, err := CheckInitTasks(ctx, h, req.Dir, req.Tasks)
	if err != nil {
		return done, err
	}
	done.Broken, done.Example = tasks.broken, req.Tasks == ""
	if tasks.noSolution > 0 && req.Agent == agent.Oracle {
		return done, host.Usagef("the agent oracle runs the tasks' solutions, and %s here has none: name your own agent", plural.Count(tasks.noSolution, "task"))
	}
	if req.Provider == "" {
		if done.Provider, err = ChooseProvider(ctx, h); err != nil {
			return done, err
		}
	}
	if req.Agent == "" {
		if done.Setup, err = FindSetup(ctx, h, req.Dir, req.Preset); err != nil {
			return done, err
		}
	}
	if done.Setup.Any() {
		req.Preset = done.Setup.Preset
	}
	done.Unset = unsetOf(h, req.Preset, done.Setup)
	files, err := wantedFiles(h, req, tasks, &done)
	if err != nil {
		return done, err
	}
	done.Written, err = writeFiles(h.Paths, files, req.Dir)
	return done, err
}

// wantedFiles returns the files to write, and notes in done where the workflow belongs.
func wantedFiles(h *host.Host, req InitRequest, tasks InitTasks, done *Initialised) ([]scaffoldFile, error) {
	files, err := scaffoldFiles("repository")
	if err != nil {
		return nil, err
	}
	workflow := WorkflowPath
	if root, below := top(h, req.Dir); root != "" {
		done.Job = filepath.ToSlash(filepath.Join(below, "job.yaml"))
		up, err := filepath.Rel(below, ".")
		if err != nil {
			return nil, fmt.Errorf("find the top of the repository: %w", err)
		}
		workflow = filepath.Join(up, WorkflowPath)
	}
	var wanted []scaffoldFile
	for _, f := range files {
		switch first, _, _ := strings.Cut(filepath.ToSlash(f.path), "/"); {
		case f.path == "job.yaml":
			if f.data, err = initJob(f.data, req, tasks, done.Provider, h.Providers.Names()[0]); err == nil && done.Setup.Any() {
				f.data, err = comparing(h, f.data, req, done.Setup)
			}
			if err != nil {
				return nil, err
			}
		case f.path == filepath.FromSlash(WorkflowPath):
			f.path = workflow
			if err := refuseExisting(h.Paths, req.Dir, workflow); err != nil && done.Job != "" {
				done.Kept = filepath.Join(req.Dir, workflow)
				continue
			}
			f.data = initWorkflow(f.data, done.Job, req.Preset, done.Setup.Variables)
		case f.path == ".gitignore":
			f.adds = true
			if up := filepath.Dir(filepath.Dir(filepath.Dir(workflow))); up != "." && mayIgnoreJobs(filepath.Join(h.Path(req.Dir), up)) {
				atTop := f // rollout evals/job.yaml, called there, writes its results there
				atTop.path = filepath.Join(up, f.path)
				wanted = append(wanted, atTop)
			}
		case first == "evals" && req.Tasks != "", first == "agent" && (req.Agent == agent.Oracle || req.Preset != ""):
			continue
		}
		wanted = append(wanted, f)
	}
	return wanted, nil
}

// plainPath matches paths that YAML reads as they are.
var plainPath = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_./-]*$`)

// initWorkflow returns the workflow of the scaffold for a job file at a path of the repository, and
// for a preset with its key and further variables.
func initWorkflow(text []byte, job, preset string, variables []string) []byte {
	out := string(text)
	if job != "" {
		if !plainPath.MatchString(job) {
			job = strconv.Quote(job)
		}
		out = strings.Replace(out, "with: { job: job.yaml,", "with: { job: "+job+",", 1)
	}
	if p, ok := presets.Get(preset); ok {
		head, _, _ := strings.Cut(out, "    # What job.yaml takes")
		out = head + "    secrets: # add them to the repository's secrets\n      env: |\n"
		for _, name := range needed(p, variables) {
			out += "        " + name + "=${{ secrets." + name + " }}\n"
		}
	}
	return []byte(out)
}

// needed returns the variables of a job with a preset: its key, and further ones.
func needed(p presets.Preset, variables []string) []string {
	names := p.Keys[:1:1]
	for _, name := range variables {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// unsetOf returns the variables of the job's agents that are not set.
func unsetOf(h *host.Host, preset string, s Setup) []string {
	p, ok := presets.Get(preset)
	if !ok {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(needed(p, s.Variables)), func(name string) bool { return h.Variable(name) != "" })
}

// initJob returns the job file of the scaffold, adapted to the request.
func initJob(text []byte, req InitRequest, tasks InitTasks, chosen Choice, usual string) ([]byte, error) {
	job, missing := string(text), ""
	replace := func(old, by string) {
		if strings.Count(job, old) != 1 {
			missing = old
		}
		job = strings.Replace(job, old, by, 1)
	}
	cut := func(from, to string) { // up to to, which is kept; "": the rest
		i := strings.Index(job, from)
		if i < 0 {
			missing = from
			return
		}
		n := len(job) - i
		if to != "" {
			n = strings.Index(job[i:], to)
		}
		if n < 0 {
			missing = to
			return
		}
		job = job[:i] + job[i+n:]
	}
	const usualProvider = "# environment:\n#   type: sandbox # needs no container engine, only Linux; the default is docker\n"
	switch {
	case req.Provider != "" && req.Provider != usual:
		replace(usualProvider, "environment:\n  type: "+req.Provider+"\n")
	case chosen.Name != "" && chosen.Name != usual:
		replace(usualProvider, "environment:\n  # Chosen because this did not work on the machine where it was written: "+strings.Join(chosen.Refused, "; ")+"\n  type: "+chosen.Name+"\n")
	}
	if tasks.noSolution > 0 {
		cut("  - name: oracle", "  - name: nop")
		cut("    - agent: oracle", "    - agent: my-agent")
	}
	switch {
	case req.Preset != "":
		cut("  - name: my-agent\n", "\ndatasets:\n")
		replace("\ndatasets:\n", presetAgent(req.Preset)+"\ndatasets:\n")
		replace("    - agent: my-agent\n", "    - agent: "+req.Preset+"\n")
	case req.Agent == agent.Oracle:
		cut("  - name: my-agent\n", "\ndatasets:\n")
		cut("    - agent: my-agent\n", "")
		cut("  confirm: ", "  groups:\n") // there is nothing left to confirm
	case req.Agent != "" && req.Agent != ExampleAgent:
		replace("  - name: my-agent\n", "  - name: "+strconv.Quote(req.Agent)+"\n")
		replace("    - agent: my-agent\n", "    - agent: "+strconv.Quote(req.Agent)+"\n")
	}
	if req.Tasks != "" {
		format := string(tasks.format)
		switch path := strconv.Quote(tasks.path); {
		case tasks.dataset != nil:
			replace("datasets:\n  - path: evals\n", initEntry(*tasks.dataset))
		case tasks.single && format != "":
			replace("datasets:\n  - path: evals\n", "tasks: ["+path+"]\ntasks_format: "+format+"\n")
		case tasks.single:
			replace("datasets:\n  - path: evals\n", "tasks: ["+path+"]\n")
		case format != "":
			replace("datasets:\n  - path: evals\n", "datasets:\n  - path: "+path+"\n    format: "+format+"\n")
		default:
			replace("  - path: evals\n", "  - path: "+path+"\n")
		}
		if leave := withoutBroken(tasks.broken); leave != "" {
			replace("\n# What must hold", leave+"\n# What must hold")
		}
	}
	if missing != "" {
		return nil, fmt.Errorf("the example job has no part %q", missing)
	}
	return []byte(job), nil
}

// initEntry returns the entry of a registry's dataset in a job file.
func initEntry(ds config.Dataset) string {
	where := "{url: " + strconv.Quote(ds.Registry.URL) + "}"
	if ds.Registry.URL == "" {
		where = "{path: " + strconv.Quote(ds.Registry.Path) + "}"
	}
	version := ""
	if ds.Version != "" {
		version = "\n    version: " + strconv.Quote(ds.Version)
	}
	exclude := ""
	if len(ds.ExcludeTasks) > 0 {
		exclude = "\n    exclude_tasks: # only Harbor's servers have them"
		for _, name := range ds.ExcludeTasks {
			exclude += "\n      - " + strconv.Quote(name)
		}
	}
	return "datasets:\n  - registry: " + where + "\n    name: " + strconv.Quote(ds.Name) + version + exclude +
		"\n    # n_tasks: 10 # a sample of the tasks instead of all\n"
}
