package task

import (
	"cmp"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/org/rollout-action/internal/diag"
	"github.com/org/rollout-action/internal/untrusted"
)

// Task is one task directory.
type Task struct {
	Name        string // the directory's name, or its name in a registry
	Dir         string // absolute path, for messages
	FS          fs.FS  // rooted at Dir; see Tree for how links are treated
	Format      Format // whose rules it was written for; see Rules
	Config      Config
	variables   variables
	GitCommitID *string // HEAD of the repository that holds Dir; nil outside git
	RepoPath    string  // Dir from the top of that repository, with forward slashes; "" outside git
	Origin      *Origin // what it was taken out of; nil for a directory that somebody keeps on this machine
	digest      digestOnce
	unread      error           // see Unread
	has         map[string]bool // files that Load looked for
	// Missing: there is nothing at Dir (task_not_found).
	Missing bool
	// Nearest is, for a Missing task, the path that may be meant; "" if none is near.
	Nearest string
	// Problems are what Load found. With errors among them, the task cannot be run (task_invalid).
	Problems diag.List
}

// Origin is the commit that a task was taken out of. It is safe to show.
type Origin struct {
	URL    string // of the repository, without credentials
	Commit string // its whole id
	Path   string // of the task, from the top of the repository; "" is the top
}

// String is for people.
func (o Origin) String() string {
	return untrusted.Line(fmt.Sprintf("%s of %s at %s", cmp.Or(o.Path, "the top"), o.URL, o.Commit[:min(12, len(o.Commit))]))
}

// File is a file of the task, for people; name has forward slashes, and "" is the task itself. What was taken out of a commit
// goes by its name, repository and path, for where it is kept on this machine tells nobody anything.
func (t *Task) File(name string) string {
	if t.Origin == nil {
		return filepath.Join(t.Dir, filepath.FromSlash(name))
	}
	return t.label() + cut(name)
}

// label names a task with an Origin.
func (t *Task) label() string { return untrusted.Line(t.Name) + " (" + t.Origin.String() + ")" }

// cut is a name behind a label.
func cut(name string) string {
	if name == "" {
		return ""
	}
	return ": " + name
}

// Below is a file of Problems below the task, with forward slashes; "" for the task itself and what is not in it.
func (t *Task) Below(file string) string {
	if t.Origin != nil {
		name, _ := strings.CutPrefix(file, t.label()+": ")
		if name == file || !filepath.IsLocal(name) {
			return ""
		}
		return name
	}
	abs, err := filepath.Abs(file)
	if err != nil {
		return ""
	}
	name, err := filepath.Rel(t.Dir, abs)
	if err != nil || name == "." || !filepath.IsLocal(name) {
		return ""
	}
	return filepath.ToSlash(name)
}

// Place is where the task is, or should be, for people.
func (t *Task) Place() string {
	if t.Origin != nil {
		return t.Origin.String()
	}
	return t.Dir
}

// Config is task.toml with defaults filled in. Source: specification, "task.toml".
type Config struct {
	Version     string
	Source      string
	Metadata    map[string]any
	Info        Info
	Verifier    Verifier
	Agent       Agent
	Environment Environment
	Solution    Solution
	Artifacts   []Artifact
}

// Verifier is [verifier]; seconds.
type Verifier struct {
	TimeoutSec float64           // default 600
	User       string            // name or number, perhaps with a group after a colon; "" is the image's
	Env        map[string]string // as written, with placeholders; see Task.VerifierEnv
}

// Agent is [agent]; seconds.
type Agent struct {
	InstallTimeoutSec float64 // default 300
	TimeoutSec        float64 // default 600; of tasks made for Harbor, which has none, a day
	User              string  // as Verifier.User; of execute and of the solution, not of install
}

// Solution is [solution].
type Solution struct {
	Env map[string]string // as written, with placeholders; see Task.SolutionEnv
}

// Environment is [environment].
type Environment struct {
	BuildTimeoutSec float64 // seconds, default 600
	DockerImage     string  // "" when the image is built from environment/
	MilliCPUs       int64   // default 1000; of tasks made for Harbor 0, which is no limit, as for the next two
	Memory          int64   // bytes, default 2 GB ("2G")
	Storage         int64   // bytes, default 10 GB ("10G")
	Asked           Asked
	Networks        Networks          // of the phases; [agent] and [verifier] may say other than this table
	WorkDir         string            // absolute, where scripts run; "" is the image's
	Env             map[string]string // as written, with placeholders; see Task.EnvironmentEnv
	Healthcheck     *Healthcheck      // nil: none
}

// Asked tells which of an environment's limits task.toml sets itself. The others are defaults.
type Asked struct{ CPUs, Memory, Storage bool }

// The paths inside a task that have a meaning. Source: specification, "Task".
const (
	configFile      = "task.toml"
	instructionFile = "instruction.md"
	environmentDir  = "environment"
	dockerfile      = "environment/Dockerfile"
	composeFile     = "environment/docker-compose.yaml"
	solutionDir     = "solution"
	solutionScript  = "solution/solve.sh"
	testsDir        = "tests"
	testsScript     = "tests/test.sh"
)

// Err is the problems that keep the task from being run, as a diag.List, or nil. A Missing task has none.
func (t *Task) Err() error { return t.Problems.Err() }

// Unread is why this machine could not read the task (too many open files, a disk that fails), or nil. It says nothing of the
// task, whose Problems and Digest do not count then.
func (t *Task) Unread() error {
	if t.unread != nil {
		return t.unread
	}
	if t.digest.fault != nil {
		return t.digest.fault
	}
	return nil
}

// Environment is the directory that the image is built from. Its symbolic links are listed as links
// (fs.ReadLinkFS), because they are part of what the image gets.
func (t *Task) Environment() (fs.FS, error) { return sub(t.FS, environmentDir) }

// Solution is what the oracle agent runs, with links replaced by what they point to.
func (t *Task) Solution() (fs.FS, error) { return t.followed(solutionDir) }

// Tests is what the verifier runs, with links replaced by what they point to.
func (t *Task) Tests() (fs.FS, error) { return t.followed(testsDir) }

// HasDockerfile reports whether environment/Dockerfile is there.
func (t *Task) HasDockerfile() bool { return t.hasFile(dockerfile) }

// HasSolution reports whether solution/solve.sh is there, which the oracle agent needs.
func (t *Task) HasSolution() bool { return t.hasFile(solutionScript) }

// hasFile is what Load found, so that what the machine lacks later does not count as a file that is missing.
func (t *Task) hasFile(name string) bool {
	if has, ok := t.has[name]; ok {
		return has
	}
	return isFile(t.FS, name)
}

func (t *Task) followed(dir string) (fs.FS, error) {
	f, err := sub(t.FS, dir)
	if err != nil {
		return nil, err
	}
	return follow{f}, nil
}

// sub is fs.Sub, failing when there is no such directory.
func sub(fsys fs.FS, dir string) (fs.FS, error) {
	info, err := fs.Stat(fsys, dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "sub", Path: dir, Err: errNotDirectory}
	}
	return fs.Sub(fsys, dir)
}

func isFile(fsys fs.FS, name string) bool {
	info, err := fs.Stat(fsys, name)
	return err == nil && info.Mode().IsRegular()
}
