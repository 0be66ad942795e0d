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
	Format      Format // see Rules
	Config      Config
	variables   variables
	GitCommitID *string // HEAD of the repository that holds Dir; nil outside git
	RepoPath    string  // Dir relative to the top of that repository, with forward slashes; "" outside git
	Origin      *Origin // the commit that it comes from; nil for a directory of the user's
	digest      digestOnce
	unread      error           // see ReadError
	has         map[string]bool // files that Load looked for
	// Missing: Dir does not exist (task_not_found).
	Missing bool
	// Nearest is a path with a similar name, for a Missing task; may be "".
	Nearest string
	// Problems are the problems that Load found. If there are errors among them, the task cannot run (task_invalid).
	Problems diag.List
}

// Origin is the commit that a task comes from. It is safe to print.
type Origin struct {
	URL    string // of the repository, without credentials
	Commit string // full id
	Path   string // of the task in the repository; "" is the top
}

// String returns a description for users.
func (o Origin) String() string {
	return untrusted.Line(fmt.Sprintf("%s of %s at %s", cmp.Or(o.Path, "the top"), o.URL, o.Commit[:min(12, len(o.Commit))]))
}

// File returns the path of a task's file for messages; name has forward slashes, and "" is the task itself. For a task from a
// commit it consists of name, repository and path, because the directory in the cache means nothing to users.
func (t *Task) File(name string) string {
	if t.Origin == nil {
		return filepath.Join(t.Dir, filepath.FromSlash(name))
	}
	return t.label() + cut(name)
}

// label names a task that has an Origin.
func (t *Task) label() string { return untrusted.Line(t.Name) + " (" + t.Origin.String() + ")" }

// cut separates a name from the label before it.
func cut(name string) string {
	if name == "" {
		return ""
	}
	return ": " + name
}

// Below returns a file of Problems relative to the task, with forward slashes; "" for the task itself and files outside it.
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

// Place returns where the task is, or should be, for messages.
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
	TimeoutSec        float64 // default 600; for tasks written for Harbor, which has no limit, a day
	User              string  // like Verifier.User; for execute and the solution, not for install
}

// Solution is [solution].
type Solution struct {
	Env map[string]string // as written, with placeholders; see Task.SolutionEnv
}

// Environment is [environment].
type Environment struct {
	BuildTimeoutSec float64 // seconds, default 600
	DockerImage     string  // "" if the image is built from environment/
	MilliCPUs       int64   // default 1000; for tasks written for Harbor 0, which means no limit, also in the next two
	Memory          int64   // bytes, default 2 GB ("2G")
	Storage         int64   // bytes, default 10 GB ("10G")
	Explicit        ExplicitLimits
	Networks        Networks          // of the phases; [agent] and [verifier] may override this table
	WorkDir         string            // absolute, where scripts run; "" is the image's
	Env             map[string]string // as written, with placeholders; see Task.EnvironmentEnv
	Healthcheck     *Healthcheck      // nil: none
}

// ExplicitLimits tells which limits task.toml sets; the others are defaults.
type ExplicitLimits struct{ CPUs, Memory, Storage bool }

// The paths in a task. Source: specification, "Task".
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

// Err returns the problems that prevent the task from running, as a diag.List, or nil. A Missing task has none.
func (t *Task) Err() error { return t.Problems.Err() }

// ReadError returns why this machine could not read the task (too many open files, a failing disk), or nil. If it is not nil, the
// task's Problems and Digest do not count.
func (t *Task) ReadError() error {
	if t.unread != nil {
		return t.unread
	}
	if t.digest.fault != nil {
		return t.digest.fault
	}
	return nil
}

// Environment returns the directory that the image is built from. It lists symbolic links as links (fs.ReadLinkFS), because
// they are part of the image.
func (t *Task) Environment() (fs.FS, error) { return sub(t.FS, environmentDir) }

// Solution returns the files that the oracle agent runs. It follows links.
func (t *Task) Solution() (fs.FS, error) { return t.followed(solutionDir) }

// Tests returns the files that the verifier runs. It follows links.
func (t *Task) Tests() (fs.FS, error) { return t.followed(testsDir) }

// HasDockerfile reports whether there is an environment/Dockerfile.
func (t *Task) HasDockerfile() bool { return t.hasFile(dockerfile) }

// HasSolution reports whether there is a solution/solve.sh, which the oracle agent needs.
func (t *Task) HasSolution() bool { return t.hasFile(solutionScript) }

// hasFile returns what Load found, so a later fault of this machine does not look like a missing file.
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

// sub is fs.Sub, but fails if there is no such directory.
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
