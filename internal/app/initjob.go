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

	"github.com/org/rollout-action/internal/agent"
	"github.com/org/rollout-action/internal/diag"
	"github.com/org/rollout-action/internal/plural"
	"github.com/org/rollout-action/internal/task"
)

// InitRequest is what Init takes.
type InitRequest struct {
	Dir      string
	Provider string // by name; "": the default one
	Tasks    string // a directory of tasks or one task; "": an example is written
	// Agent is the name of an agent of the user's own, whose first script is written. agent.Oracle: there is none; "": ExampleAgent.
	Agent string
}

// ExampleAgent is the name of the agent that Init writes.
const ExampleAgent = "my-agent"

// CheckInitDir refuses a directory in which Init would write nothing, whatever it is asked for.
func CheckInitDir(h *Host, dir string) error {
	for _, name := range []string{"job.yaml", ".gitignore", WorkflowPath} {
		if err := refuseExisting(h.Paths, dir, name); err != nil {
			return err
		}
	}
	return nil
}

// CheckInitProvider refuses a provider that does not exist.
func CheckInitProvider(h *Host, name string) error {
	if _, ok := h.Providers.Find(name); !ok && name != "" {
		return usage("there is no provider %s: want %s", clean(name), strings.Join(h.Providers.Names(), " or "))
	}
	return nil
}

var agentName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]{0,63}$`)

// CheckInitAgent refuses a name that no agent of the user's own can have.
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

// InitTasks is what is known about the tasks that Init is given. The zero InitTasks is the example.
type InitTasks struct {
	path       string      // from the job's directory, with forward slashes
	single     bool        // it is one task
	format     task.Format // "": the default one
	noSolution int
}

// CheckInitTasks reads a directory of tasks, and refuses one that no job can run.
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
		return none, usage("%s: there is no such directory", clean(tasks))
	}
	single, err := task.IsTask(os.DirFS(abs), ".")
	if err != nil {
		return none, err
	}
	root, err := filepath.Abs(h.Path(dir))
	if err != nil {
		return none, fmt.Errorf("find %s: %w", dir, err)
	}
	rel, err := filepath.Rel(resolved(root), resolved(abs))
	if err != nil {
		return none, fmt.Errorf("find %s from %s: %w", tasks, dir, err)
	}
	if rel = filepath.ToSlash(rel); !utf8.ValidString(rel) || strings.Contains(rel, "$") {
		return none, usage("%s: no job file can name such a path", clean(tasks))
	}
	// Of the formats without errors, the one with fewer warnings is meant: the default one warns of tasks that look made for Harbor.
	var best *InitTasks
	var first error
	fewest := 0
	for _, format := range []task.Format{"", task.FormatHarbor} {
		found, err := Validate(ctx, h, JobRequest{File: tasks, TaskFormat: string(format)})
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

// Init writes a first job into a directory: a job file, a workflow, and unless there are tasks already, a dataset with one task. It
// returns the files that it wrote. It writes over none: if one exists, it writes nothing.
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

// initJob returns the job file of the scaffold with what was asked for.
func initJob(text []byte, req InitRequest, tasks InitTasks, usual string) ([]byte, error) {
	job, missing := string(text), ""
	replace := func(old, by string) {
		if strings.Count(job, old) != 1 {
			missing = old
		}
		job = strings.Replace(job, old, by, 1)
	}
	cut := func(from, to string) { // up to to, which stays; "": the rest
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
		cut("  confirm: ", "  groups:\n") // nothing is left that it would confirm
	case req.Agent != "" && req.Agent != ExampleAgent:
		replace("  - name: my-agent\n", "  - name: "+strconv.Quote(req.Agent)+"\n")
		replace("    - agent: my-agent\n", "    - agent: "+strconv.Quote(req.Agent)+"\n")
	}
	if req.Tasks != "" {
		format := string(tasks.format)
		switch path := strconv.Quote(tasks.path); {
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
