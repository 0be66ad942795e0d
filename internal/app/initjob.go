package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/org/rollout-action/internal/core/agent"
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
}

// ExampleAgent is the name of the agent that Init writes.
const ExampleAgent = "my-agent"

// CheckInitDir refuses a directory in which Init would write nothing, whatever the other choices.
func CheckInitDir(h *Host, dir string) error {
	for _, name := range []string{"job.yaml", ".gitignore", WorkflowPath} {
		if err := refuseExisting(h.Paths, dir, name); err != nil {
			return err
		}
	}
	return nil
}

// CheckInitProvider refuses an unknown provider.
func CheckInitProvider(h *Host, name string) error {
	if _, ok := h.Providers.Find(name); !ok && name != "" {
		return usage("there is no provider %s: want %s", clean(name), strings.Join(h.Providers.Names(), " or "))
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
		return usage("%s does nothing, so that it always runs beside the others: give %s, or a name for your agent", agent.Nop, agent.Oracle)
	case !agentName.MatchString(name):
		return usage("%s is no name for an agent: want a letter, then letters, digits and . _ -", clean(name))
	}
	return nil
}

// InitTasks describes the tasks that Init is given. The zero InitTasks is the example.
type InitTasks struct {
	path       string      // relative to the job's directory, with forward slashes
	single     bool        // it is one task
	format     task.Format // "": the default one
	noSolution int
	dataset    *config.Dataset // of a registry, instead of path
}

// taskChoices lists the possible values of InitRequest.Tasks, for error messages.
const taskChoices = "a directory of tasks, NAME@VERSION of Harbor's registry, or the path or URL of a registry and NAME@VERSION"

// initDataset splits the reference to a registry's dataset; false if text is none.
func initDataset(text string) (registryAt, label string, ok bool) {
	switch fields := strings.Fields(text); {
	case len(fields) == 2:
		return fields[0], fields[1], true
	case len(fields) != 1:
		return "", "", false
	case registry.IsURL(text):
		return text, "", true
	}
	_, version := registry.SplitLabel(text)
	return registry.DefaultURL, text, version != ""
}

// checkInitDataset returns the dataset of a registry that a reference names. Its tasks are not
// read.
func checkInitDataset(ctx context.Context, h *Host, dir, where, label string) (InitTasks, error) {
	var none InitTasks
	if label == "" {
		return none, usage("%s is a registry: name one of its datasets, too, as in: REGISTRY NAME@VERSION", clean(where))
	}
	source, reg, err := openRegistry(ctx, h, where)
	if err != nil {
		if ctx.Err() != nil {
			return none, ctx.Err()
		}
		return none, usage("%s of a registry: %w", clean(label), err) // another answer may help
	}
	defer source.Close()
	d, err := findDataset(reg, label)
	if err != nil {
		return none, err
	}
	ds := config.Dataset{Name: d.Name, Version: d.Version, Registry: &config.Registry{URL: where}}
	if !registry.IsURL(where) {
		path, err := fromJob(h, dir, where)
		if err != nil {
			return none, err
		}
		ds.Registry = &config.Registry{Path: path}
	}
	for _, text := range []string{ds.Name, ds.Version, ds.Registry.URL} {
		if strings.Contains(text, "$") || clean(text) != text {
			return none, usage("%s: no job file can name such a dataset", clean(label))
		}
	}
	return InitTasks{dataset: &ds}, nil
}

// fromJob returns the path of a file or directory as written in a job file in dir.
func fromJob(h *Host, dir, path string) (string, error) {
	abs, err := filepath.Abs(h.Path(path))
	if err != nil {
		return "", fmt.Errorf("find %s: %w", path, err)
	}
	root, err := filepath.Abs(h.Path(dir))
	if err != nil {
		return "", fmt.Errorf("find %s: %w", dir, err)
	}
	rel, err := filepath.Rel(resolved(root), resolved(abs))
	if err != nil {
		return "", fmt.Errorf("find %s from %s: %w", path, dir, err)
	}
	if rel = filepath.ToSlash(rel); !utf8.ValidString(rel) || strings.Contains(rel, "$") {
		return "", usage("%s: no job file can name such a path", clean(path))
	}
	return rel, nil
}

// CheckInitTasks reads a directory of tasks, or a registry, and refuses tasks that no job can run.
func CheckInitTasks(ctx context.Context, h *Host, dir, tasks string) (InitTasks, error) {
	var none InitTasks
	if tasks == "" {
		return none, nil
	}
	abs, err := filepath.Abs(h.Path(tasks))
	if err != nil {
		return none, fmt.Errorf("find %s: %w", tasks, err)
	}
	if !isDir(abs) {
		if where, label, ok := initDataset(tasks); ok {
			return checkInitDataset(ctx, h, dir, where, label)
		}
		return none, usage("%s: there is no such directory (give %s)", clean(tasks), taskChoices)
	}
	single, err := task.IsTask(os.DirFS(abs), ".")
	if err != nil {
		return none, err
	}
	rel, err := fromJob(h, dir, tasks)
	if err != nil {
		return none, err
	}
	// Of the formats without errors, the one with fewer warnings is meant: the default one warns of
	// tasks that look made for Harbor.
	var best *InitTasks
	var first error
	fewest := 0
	for _, format := range []task.Format{"", task.FormatHarbor} {
		found, err := Validate(ctx, h, JobRequest{File: tasks, TaskFormat: string(format)}, false)
		if ctx.Err() != nil {
			return none, ctx.Err()
		}
		if err == nil {
			err = found.Problems.Err()
		}
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		if n := len(found.Problems); best == nil || n < fewest {
			best, fewest = &InitTasks{path: rel, single: single, format: format, noSolution: found.NoSolution}, n
		}
	}
	if best != nil {
		return *best, nil
	}
	if problems := (diag.List)(nil); errors.As(first, &problems) && len(problems.Errors()) > 0 {
		p := problems.Errors()
		return none, usage("%s has %s; the first: %s", clean(tasks), plural.Count(len(p), "problem"), clean(p[0].String()))
	}
	return none, first
}

// Init writes a first job into a directory: a job file, a workflow and, unless there are tasks
// already, a dataset with one task. It returns the files that it wrote. It overwrites nothing: if
// one of the files exists, it writes none.
func Init(ctx context.Context, h *Host, req InitRequest) (written []string, err error) {
	if err := errors.Join(CheckInitProvider(h, req.Provider), CheckInitAgent(req.Agent)); err != nil {
		return nil, &UsageError{err}
	}
	if err := CheckInitDir(h, req.Dir); err != nil {
		return nil, err
	}
	tasks, err := CheckInitTasks(ctx, h, req.Dir, req.Tasks)
	if err != nil {
		return nil, err
	}
	if tasks.noSolution > 0 && req.Agent == agent.Oracle {
		return nil, usage("the agent oracle runs the tasks' solutions, and %s here has none: name an agent of your own", plural.Count(tasks.noSolution, "task"))
	}
	files, err := scaffoldFiles("scaffold")
	if err != nil {
		return nil, err
	}
	var wanted []scaffoldFile
	for _, f := range files {
		switch top, _, _ := strings.Cut(filepath.ToSlash(f.path), "/"); {
		case f.path == "job.yaml":
			if f.data, err = initJob(f.data, req, tasks, h.Providers.Names()[0]); err != nil {
				return nil, err
			}
		case top == "evals" && req.Tasks != "", top == "agent" && req.Agent == agent.Oracle:
			continue
		}
		wanted = append(wanted, f)
	}
	return writeFiles(h.Paths, wanted, req.Dir)
}

// initJob returns the job file of the scaffold, adapted to the request.
func initJob(text []byte, req InitRequest, tasks InitTasks, usual string) ([]byte, error) {
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
	if req.Provider != "" && req.Provider != usual {
		replace("# environment:\n#   type: sandbox # needs no container engine, only Linux; the default is docker\n", "environment:\n  type: "+req.Provider+"\n")
	}
	if tasks.noSolution > 0 {
		cut("  - name: oracle", "  - name: nop")
		cut("    - agent: oracle", "    - agent: my-agent")
	}
	switch {
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
	return "datasets:\n  - registry: " + where + "\n    name: " + strconv.Quote(ds.Name) + "\n    version: " + strconv.Quote(ds.Version) +
		"\n    # n_tasks: 10 # a sample of the tasks instead of all\n"
}
