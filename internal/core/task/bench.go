package task

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/org/rollout-action/internal/core/compose"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/task/taskdir"
	"github.com/org/rollout-action/internal/core/task/terminalbench"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/fields"
	"github.com/org/rollout-action/internal/lib/memfs"
)

// Files names the files of a task that messages and lints refer to, below the task.
type Files struct {
	Config, Instruction string
	Tests, TestScript   string // the directory, and the script
	Solution            string // the script
	Context             string // the directory that the image is built from
}

// Dockerfile returns the path of the Dockerfile.
func (f Files) Dockerfile() string { return path.Join(f.Context, "Dockerfile") }

// Files returns the names of the task's files.
func (t *Task) Files() Files {
	if t.bench == nil {
		return Files{Config: configFile, Instruction: instructionFile, Tests: testsDir, TestScript: testsScript, Solution: solutionScript, Context: environmentDir}
	}
	return Files{
		Config: terminalbench.ConfigFile, Instruction: terminalbench.ConfigFile, Tests: terminalbench.TestsDir, TestScript: terminalbench.TestScript,
		Solution: t.bench.solutionName, Context: cmp.Or(t.bench.Service.Context, "."),
	}
}

// Worded returns a message about the task with the names of its own files and keys.
func (t *Task) Worded(message string) string {
	if t.bench == nil {
		return message
	}
	return benchWords.Replace(message)
}

// benchWords replaces the names in messages about tasks with a task.toml.
var benchWords = strings.NewReplacer(
	"agent.timeout_sec in "+configFile, "max_agent_timeout_sec in "+terminalbench.ConfigFile,
	"verifier.timeout_sec in "+configFile, "max_test_timeout_sec in "+terminalbench.ConfigFile,
	"environment.memory in "+configFile, "mem_limit in "+terminalbench.ComposeFile,
	"environment.workdir in "+configFile, "working_dir in "+terminalbench.ComposeFile,
	"environment.docker_image in "+configFile, "image in "+terminalbench.ComposeFile,
	"environment.build_timeout_sec in "+configFile, "timeout_multiplier in the job",
	"the files in "+environmentDir+"/", terminalbench.Dockerfile+" and the files that it copies",
	"in "+configFile, "in "+terminalbench.ComposeFile,
	dockerfile, terminalbench.Dockerfile, testsScript, terminalbench.TestScript,
)

// bench is the part of a task of terminal-bench before version 2 that Config does not hold.
type bench struct {
	terminalbench.Definition
	solutionName string // solution.sh, or solution.yaml
}

// isBench reports whether the task in fsys is one of terminal-bench before version 2. One that has
// been converted has a task.toml, too.
func isBench(fsys fs.FS) bool {
	return !taskdir.IsFile(fsys, configFile) && !taskdir.IsFile(fsys, instructionFile) && terminalbench.Is(fsys)
}

// benchBuildSec is the time for building an image. Terminal-bench has no limit.
const benchBuildSec = 60 * 60

// loadBench reads a task of terminal-bench.
func (t *Task) loadBench(p *problems, opts Options) {
	d, found := terminalbench.Read(t.FS)
	b := &bench{Definition: d, solutionName: terminalbench.SolutionFile}
	if !taskdir.IsFile(t.FS, terminalbench.SolutionFile) && taskdir.IsFile(t.FS, terminalbench.CommandsFile) {
		b.solutionName = terminalbench.CommandsFile
	}
	t.Format, t.bench = FormatTerminalBench, b
	for _, one := range found {
		one.File = p.path(one.File)
		p.list = append(p.list, one)
	}
	t.Config = b.config()
	t.variables = b.expand(&t.Config, p, opts)
	if b.Service.Composed && found.Err() == nil {
		t.services = p.compose(compose.Source{FS: t.FS, Dir: ".", Main: b.Service.Name, Lookup: func(name string) (string, bool) {
			if value, ok := terminalbench.Value(name); ok {
				return value, true
			}
			return opts.passed(name)
		}})
	}
	b.check(t, p)
}

// config returns the configuration that the task means.
func (b *bench) config() Config {
	c, s := Defaults(FormatHarbor), b.Service
	c.Version, c.Metadata = "1.0", b.Metadata
	c.Agent.TimeoutSec, c.Agent.User = b.AgentSec, User(s.User)
	c.Verifier.TimeoutSec, c.Verifier.User = b.TestSec, "root"
	if b.SameShell {
		c.Verifier.User = c.Agent.User
	}
	e := &c.Environment
	e.BuildTimeoutSec, e.DockerImage, e.WorkDir = benchBuildSec, s.Image, s.WorkDir
	e.MilliCPUs, e.Memory = MilliCPUs(s.MilliCPUs), Size(s.Memory)
	e.Explicit = ExplicitLimits{CPUs: s.MilliCPUs > 0, Memory: s.Memory > 0}
	return c
}

// expand sets the variables of the environment, with those of the host that the job passes on.
func (b *bench) expand(c *Config, p *problems, opts Options) variables {
	var v variables
	var found fields.Problems
	file := p.path(terminalbench.ComposeFile)
	for _, one := range b.Service.Env {
		e := expansion{&found, &found, &v.unset, opts, fields.Path{"environment", one.Name}, fields.Place{File: file, Line: one.Line, Column: one.Column}}
		if c.Environment.Env == nil {
			c.Environment.Env, v.environment = Env{}, map[string]string{}
		}
		c.Environment.Env[one.Name], v.environment[one.Name] = one.Value, e.expand(one.Value)
	}
	p.list = append(p.list, found.All(file)...)
	return v
}

// check finds the problems with the other files.
func (b *bench) check(t *Task, p *problems) {
	if len(bytes.TrimSpace([]byte(b.Instruction))) == 0 && p.list.Err() == nil {
		p.warn(terminalbench.ConfigFile, "has an empty instruction", "it is what the agent is asked to do")
	}
	p.wantFile(t.FS, terminalbench.TestScript, "it is the script that runs the tests")
	if _, err := fs.Stat(t.FS, terminalbench.TestsDir); !errors.Is(err, fs.ErrNotExist) && p.wantDirectory(t.FS, terminalbench.TestsDir, "") {
		p.checkCopied(t.FS, terminalbench.TestsDir)
	}
	if b.solutionName == terminalbench.CommandsFile {
		_, found, _ := terminalbench.Solution(t.FS)
		for _, one := range found {
			one.File = p.path(one.File)
			t.variables.solutionProblems = append(t.variables.solutionProblems, one)
		}
	}
	for _, m := range b.Service.Mounts {
		switch info, err := fs.Stat(t.FS, m.Source); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			p.unreadable(t.FS, m.Source, err, terminalbench.ComposeFile+" mounts it")
		case info.IsDir():
			p.checkCopied(t.FS, m.Source)
		}
	}
}

// rules returns what the format means for a trial.
// Source: terminal-bench 0.2.18, harness/harness.py and agents/oracle_agent.py.
func (b *bench) rules() Rules {
	return Rules{
		VerifyAfterFailure: true,
		Parser:             b.Parser,
		TestScript:         terminalbench.TestScript,
		SolutionScript:     terminalbench.SolutionFile,
		AsTyped:            true,
		SolutionMayFail:    true,
		SolutionDirs:       []string{environment.OracleDir},
		LogDirs:            []string{environment.AgentLogs, environment.VerifierLogs},
	}
}

// solution returns a directory with the solution as a script.
func (b *bench) solution(fsys fs.FS) (fs.FS, error) {
	script, found, err := terminalbench.Solution(fsys)
	if err == nil {
		err = diag.List(found).Err()
	}
	if err != nil {
		return nil, err
	}
	return memfs.Dir{terminalbench.SolutionFile: {Data: script, Mode: 0o755}}, nil
}

// tests returns the files of tests/, and run-tests.sh unless tests/ has one.
func (b *bench) tests(fsys fs.FS) (fs.FS, error) {
	script, err := fs.ReadFile(fsys, terminalbench.TestScript)
	if err != nil {
		return nil, err
	}
	below := fs.FS(memfs.Dir{})
	if info, err := fs.Stat(fsys, terminalbench.TestsDir); err == nil && info.IsDir() {
		if below, err = fs.Sub(fsys, terminalbench.TestsDir); err != nil {
			return nil, err
		}
	}
	return added{taskdir.Follow(below), memfs.Dir{terminalbench.TestScript: {Data: script, Mode: 0o755}}}, nil
}

// added is a directory with some files added at its top, except those that it has itself.
type added struct {
	fs.FS
	files memfs.Dir
}

// Open implements fs.FS.
func (a added) Open(name string) (fs.File, error) {
	if _, ours := a.files[name]; ours {
		if _, err := fs.Stat(a.FS, name); errors.Is(err, fs.ErrNotExist) {
			return a.files.Open(name)
		}
	}
	return a.FS.Open(name)
}

// ReadDir implements fs.ReadDirFS.
func (a added) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(a.FS, name)
	if err != nil || name != "." {
		return entries, err
	}
	ours, err := fs.ReadDir(a.files, ".")
	for _, e := range ours {
		if _, gone := fs.Stat(a.FS, e.Name()); errors.Is(gone, fs.ErrNotExist) {
			entries = append(entries, e)
		}
	}
	return entries, err
}

// Mount is a file or directory of the task that is in the environment before the agent begins.
type Mount struct {
	Files fs.FS  // it follows links
	Dir   string // the directory in the environment
	// Whole: the directory has nothing else.
	Whole bool
	// ReadOnly: agents must not change the files, so they are put in place again for the tests.
	ReadOnly bool
}

// Mounts returns the task's files that its environment has in addition to those of the image.
func (t *Task) Mounts() ([]Mount, error) {
	if t.bench == nil {
		return nil, nil
	}
	var mounts []Mount
	for _, m := range t.bench.Service.Mounts {
		info, err := fs.Stat(t.FS, m.Source)
		switch {
		case errors.Is(err, fs.ErrNotExist): // made empty, as Docker does
			mounts = append(mounts, Mount{Files: memfs.Dir{}, Dir: m.Target, ReadOnly: m.ReadOnly})
		case err != nil:
			return nil, fmt.Errorf("%s, which %s mounts: %w", m.Source, terminalbench.ComposeFile, err)
		case info.IsDir():
			files, err := followed(t.FS, m.Source)
			if err != nil {
				return nil, err
			}
			mounts = append(mounts, Mount{Files: files, Dir: m.Target, Whole: true, ReadOnly: m.ReadOnly})
		default:
			content, err := fs.ReadFile(t.FS, m.Source)
			if err != nil {
				return nil, err
			}
			dir, name := path.Split(m.Target)
			mounts = append(mounts, Mount{Files: memfs.Dir{name: {Data: content, Mode: info.Mode().Perm()}}, Dir: path.Clean(dir), ReadOnly: m.ReadOnly})
		}
	}
	return mounts, nil
}
