package task

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/org/rollout-action/internal/lib/diag"
)

// newTask writes a small valid task and returns its directory. files changes it: path -> content
// ("" removes the file).
func newTask(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "hello")
	all := map[string]string{
		"task.toml":              "version = \"1.0\"\n",
		"instruction.md":         "Say hello.\n",
		"environment/Dockerfile": "FROM debian:bookworm\n",
		"solution/solve.sh":      "echo hello > /app/hello.txt\n",
		"tests/test.sh":          "echo 1 > /logs/verifier/reward.txt\n",
	}
	for name, content := range files {
		all[name] = content
	}
	for name, content := range all {
		if content != "" {
			writeFile(t, filepath.Join(dir, name), content)
		}
	}
	return dir
}

func writeFile(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestLoadValidTask(t *testing.T) {
	dir := newTask(t, nil)
	t.Chdir(filepath.Dir(dir))
	got := Load("./hello")
	if got.Err() != nil || len(got.Problems) > 0 || got.Missing {
		t.Fatalf("problems %v, missing %v", got.Problems, got.Missing)
	}
	if got.Name != "hello" || got.Dir != dir || !got.HasDockerfile() || !got.HasSolution() {
		t.Errorf("name %q, dir %q, Dockerfile %v, solution %v", got.Name, got.Dir, got.HasDockerfile(), got.HasSolution())
	}
	want := Environment{BuildTimeoutSec: 600, MilliCPUs: 1000, Memory: 2_000_000_000, Storage: 10_000_000_000}
	if !reflect.DeepEqual(got.Config.Environment, want) {
		t.Errorf("environment = %+v, want %+v", got.Config.Environment, want)
	}
	if text, err := got.Instruction(); string(text) != "Say hello.\n" || err != nil {
		t.Errorf("instruction %q, %v", text, err)
	}
}

func TestLoadNamesTaskAfterItsDirectory(t *testing.T) {
	dir := newTask(t, nil)
	t.Chdir(dir)
	for _, path := range []string{".", "tests/..", dir + "/"} {
		if got := Load(path); got.Name != "hello" {
			t.Errorf("Load(%q).Name = %q", path, got.Name)
		}
	}
}

func TestLoadOfMissingTask(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Symlink("nowhere", filepath.Join(dir, "dangling")))
	for _, name := range []string{"none", "none/deeper", "dangling"} {
		got := Load(filepath.Join(dir, name))
		if !got.Missing || len(got.Problems) > 0 || got.Name != filepath.Base(name) || got.FS == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	writeFile(t, filepath.Join(dir, "file"), "x")
	got := Load(filepath.Join(dir, "file"))
	if want := filepath.Join(dir, "file") + ": is not a directory (a task is a directory with task.toml and instruction.md)"; got.Missing || got.Problems.Error() != want {
		t.Errorf("missing %v, problems %v", got.Missing, got.Problems)
	}
}

func TestLoadReportsProblemsWithFiles(t *testing.T) {
	in := func(dir, name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	replace := func(t *testing.T, path string, make func(string) error) {
		t.Helper()
		must(t, os.RemoveAll(path))
		must(t, make(path))
	}
	link := func(target string) func(string) error {
		return func(path string) error { return os.Symlink(target, path) }
	}
	directory := func(path string) error { return os.Mkdir(path, 0o755) }
	pipe := func(path string) error { return syscall.Mkfifo(path, 0o644) }

	for _, tc := range []struct {
		name   string
		change func(t *testing.T, dir string)
		want   []string
	}{
		{"an empty directory", func(t *testing.T, dir string) {
			replace(t, dir, directory)
		}, []string{
			`instruction.md: is missing (it is the agent's instruction)`,
			`task.toml: is missing (it may be as short as: version = "1.0")`,
			`tests: is missing (it holds test.sh, the script that writes the reward)`,
		}},
		{"a task.toml that cannot be read may have named the steps", func(t *testing.T, dir string) {
			must(t, os.RemoveAll(in(dir, "instruction.md")))
			must(t, os.RemoveAll(in(dir, "tests")))
			must(t, os.MkdirAll(in(dir, "steps/build"), 0o755))
			writeFile(t, in(dir, "steps/build/instruction.md"), "Build it.")
			writeFile(t, in(dir, "task.toml"), "[verifier]\n[verifier]\n")
		}, []string{`task.toml:2:2: table verifier already exists`}},
		{"a directory of steps that task.toml does not name hides nothing", func(t *testing.T, dir string) {
			replace(t, dir, directory)
			writeFile(t, in(dir, "task.toml"), "version = \"1.0\"\n")
			writeFile(t, in(dir, "steps/build/instruction.md"), "Build it.")
		}, []string{
			`environment: is missing (add environment/Dockerfile, or set docker_image in task.toml)`,
			`instruction.md: is missing (it is the agent's instruction)`,
			`steps/build/instruction.md: warning: has no effect (name the steps in task.toml: [[steps]])`,
			`tests: is missing (it holds test.sh, the script that writes the reward)`,
		}},
		{"with an image, environment is not needed", func(t *testing.T, dir string) {
			must(t, os.RemoveAll(in(dir, "environment")))
			writeFile(t, in(dir, "task.toml"), "version = \"1.0\"\nenvironment.docker_image = \"debian:bookworm\"")
		}, nil},
		{"a solution is not needed", func(t *testing.T, dir string) { must(t, os.RemoveAll(in(dir, "solution"))) }, nil},
		{"tests without test.sh", func(t *testing.T, dir string) {
			must(t, os.Rename(in(dir, "tests/test.sh"), in(dir, "tests/check.sh")))
		}, []string{`tests/test.sh: is missing (it is the script that writes the reward)`}},
		{"an empty instruction", func(t *testing.T, dir string) { writeFile(t, in(dir, "instruction.md"), " \n") },
			[]string{`instruction.md: warning: is empty (it is the agent's instruction)`}},
		{"an instruction that is too large", func(t *testing.T, dir string) {
			must(t, os.Truncate(in(dir, "instruction.md"), maxInstructionSize+1))
		}, []string{`instruction.md: is larger than 16 MiB`}},
		{"directories where files should be", func(t *testing.T, dir string) {
			for _, name := range []string{"task.toml", "instruction.md", "tests/test.sh"} {
				replace(t, in(dir, name), directory)
			}
		}, []string{
			`instruction.md: is a directory, not a file (it is the agent's instruction)`,
			`task.toml: is a directory, not a file (it may be as short as: version = "1.0")`,
			`tests/test.sh: is a directory, not a file (it is the script that writes the reward)`,
		}},
		{"files where directories should be", func(t *testing.T, dir string) {
			for _, name := range []string{"environment", "tests", "solution"} {
				must(t, os.RemoveAll(in(dir, name)))
				writeFile(t, in(dir, name), "x")
			}
		}, []string{
			`environment: is a file, not a directory (add environment/Dockerfile, or set docker_image in task.toml)`,
			`solution: is a file, not a directory`,
			`tests: is a file, not a directory (it holds test.sh, the script that writes the reward)`,
		}},
		{"named pipes do not block", func(t *testing.T, dir string) {
			for _, name := range []string{"task.toml", "instruction.md", "tests/test.sh", "tests/pipe", "solution/solve.sh"} {
				must(t, os.RemoveAll(in(dir, name)))
				must(t, pipe(in(dir, name)))
			}
		}, []string{
			`instruction.md: cannot be read: neither a file nor a directory (it is the agent's instruction)`,
			`solution/solve.sh: is neither a file nor a directory`,
			`task.toml: cannot be read: neither a file nor a directory (it may be as short as: version = "1.0")`,
			`tests/pipe: is neither a file nor a directory`,
			`tests/test.sh: cannot be read: neither a file nor a directory (it is the script that writes the reward)`,
			`tests/test.sh: is neither a file nor a directory`,
		}},
		{"links inside the task are followed", func(t *testing.T, dir string) {
			replace(t, in(dir, "instruction.md"), link("docs/instruction.md"))
			writeFile(t, in(dir, "docs/instruction.md"), "Say hello.")
			must(t, link("../environment/Dockerfile")(in(dir, "tests/Dockerfile")))
			must(t, link("../docs")(in(dir, "tests/docs")))
		}, nil},
		{"links out of the task are not", func(t *testing.T, dir string) {
			writeFile(t, in(dir, "../secret"), "x")
			replace(t, in(dir, "instruction.md"), link("../secret"))
			must(t, link("/etc/passwd")(in(dir, "tests/passwd")))
			must(t, link("../..")(in(dir, "solution/all")))
			replace(t, in(dir, "environment"), link("/tmp"))
		}, []string{
			`environment: is a link to "/tmp", which is outside of the task (copy the link's target into the task)`,
			`instruction.md: is a link to "../secret", which is outside of the task (copy the link's target into the task)`,
			`solution/all: is a link to "../..", which is outside of the task (copy the link's target into the task)`,
			`tests/passwd: is a link to "/etc/passwd", which is outside of the task (copy the link's target into the task)`,
		}},
		{"links without a target", func(t *testing.T, dir string) {
			must(t, link("gone")(in(dir, "tests/dangling")))
			must(t, link("self")(in(dir, "tests/self")))
			must(t, link(".")(in(dir, "tests/here")))
			must(t, link("../../solution")(in(dir, "tests/out")))
			must(t, os.Mkdir(in(dir, "tests/a"), 0o755))
			must(t, os.Mkdir(in(dir, "tests/b"), 0o755))
			must(t, link("../b")(in(dir, "tests/a/b")))
			must(t, link("../a")(in(dir, "tests/b/a")))
		}, []string{
			`tests/a/b/a: is a link to one of its parent directories`,
			`tests/b/a/b: is a link to one of its parent directories`,
			`tests/dangling: is a link to "gone", which does not exist`,
			`tests/here: is a link to one of its parent directories`,
			`tests/out: is a link to "../../solution", which is outside of the task (copy the link's target into the task)`,
			`tests/self: is a link to "self", which is part of a loop`,
		}},
		{"links in environment belong to the image", func(t *testing.T, dir string) {
			must(t, link("/usr/bin/python3")(in(dir, "environment/python")))
		}, nil},
		{"a file name that is not UTF-8", func(t *testing.T, dir string) {
			writeFile(t, in(dir, "tests/caf\xe9"), "x")
		}, []string{"tests/caf\uFFFD: has a name that is not UTF-8 (rename it)"}},
		{"docker-compose.yml is a file like any other", func(t *testing.T, dir string) {
			writeFile(t, in(dir, "environment/docker-compose.yml"), "services: {}\n")
		}, nil},
		{"a service that there is not", func(t *testing.T, dir string) {
			writeFile(t, in(dir, "environment/docker-compose.yaml"), "services: {db: {image: x}}\n")
			writeFile(t, in(dir, "task.toml"), "version = \"1.0\"\nartifacts = [{source = \"/a\", service = \"web\"}, {source = \"/b\", service = \"db\"}]\n")
		}, []string{`task.toml: "artifacts.service": there is no service "web" in environment/docker-compose.yaml (name one of its services)`}},
		{"services of the tests without an image of main", func(t *testing.T, dir string) {
			writeFile(t, in(dir, "task.toml"), "version = \"1.4\"\nverifier.environment_mode = \"separate\"")
			writeFile(t, in(dir, "tests/docker-compose.yaml"), "services: {main: {}, db: {image: \"db:1\"}}\n")
		}, []string{`tests/docker-compose.yaml: gives main no image (add tests/Dockerfile, or give main a build or an image)`}},
		{"docker-compose.yaml", func(t *testing.T, dir string) {
			writeFile(t, in(dir, "environment/docker-compose.yaml"), "x")
		}, []string{`environment/docker-compose.yaml: is not a mapping with the key services (leave the task out: exclude_tasks in the job)`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := newTask(t, nil)
			tc.change(t, dir)
			equalProblems(t, dir, Load(dir), tc.want)
		})
	}
}

func TestLoadReportsUnreadableFiles(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may read everything")
	}
	dir := newTask(t, nil)
	must(t, os.Chmod(filepath.Join(dir, "task.toml"), 0))
	must(t, os.Chmod(filepath.Join(dir, "instruction.md"), 0))
	must(t, os.Chmod(filepath.Join(dir, "tests"), 0))
	defer os.Chmod(filepath.Join(dir, "tests"), 0o755)
	equalProblems(t, dir, Load(dir), []string{
		`instruction.md: cannot be read: permission denied (it is the agent's instruction)`,
		`task.toml: cannot be read: permission denied (it may be as short as: version = "1.0")`,
		`tests: cannot be read: permission denied`,
		`tests/test.sh: cannot be read: permission denied (it is the script that writes the reward)`,
	})
}

func TestErrLeavesOutWarnings(t *testing.T) {
	dir := newTask(t, map[string]string{"task.toml": "version = \"1.0\"\nodd = 1\nagent.timeout_sec = 0\n"})
	var list diag.List
	if err := Load(dir).Err(); !errors.As(err, &list) || len(list) != 1 || list[0].Line != 3 {
		t.Errorf("Err() = %v", err)
	}
}

func TestIsTask(t *testing.T) {
	fsys := fstest.MapFS{
		"whole/task.toml":          {},
		"whole/instruction.md":     {},
		"no-config/instruction.md": {},
		"no-words/task.toml":       {},
		"other/README.md":          {},
		"file":                     {},
		"link/task.toml":           {Mode: fs.ModeSymlink, Data: []byte("nowhere")},
	}
	for name, want := range map[string]bool{"whole": true, "link": true, "no-config": true, "no-words": true, "other": false, "file": false, "none": false, ".": false} {
		if got, err := IsTask(fsys, name); err != nil || got != want {
			t.Errorf("IsTask(%q) = %v", name, got)
		}
	}
	sub, _ := fs.Sub(fsys, "whole")
	if is, err := IsTask(sub, "."); err != nil || !is {
		t.Error("IsTask of the task itself = false")
	}
}

// The copied directories read as plain files and directories, even where they contain links.
func TestTestsAndSolutionHaveNoLinks(t *testing.T) {
	dir := newTask(t, nil)
	writeFile(t, filepath.Join(dir, "shared/lib/util.sh"), "true\n")
	must(t, os.Symlink("../shared/lib", filepath.Join(dir, "tests/lib")))
	must(t, os.Symlink("lib/util.sh", filepath.Join(dir, "tests/util.sh")))
	must(t, os.Symlink("lib/util.sh", filepath.Join(dir, "environment/util.sh")))
	task := Load(dir)
	must(t, task.Err())

	tests, err := task.Tests()
	must(t, err)
	var got []string
	must(t, fs.WalkDir(tests, ".", func(path string, d fs.DirEntry, err error) error {
		must(t, err)
		if !d.IsDir() && !d.Type().IsRegular() {
			t.Errorf("%s is a %v", path, d.Type())
		}
		got = append(got, path)
		return nil
	}))
	if want := ". lib lib/util.sh test.sh util.sh"; strings.Join(got, " ") != want {
		t.Errorf("tests holds %v, want %v", got, want)
	}
	if err := fstest.TestFS(tests, "lib/util.sh", "util.sh"); err != nil {
		t.Error(err)
	}

	env, err := task.Environment()
	must(t, err)
	if target, err := fs.ReadLink(env, "util.sh"); err != nil || target != "lib/util.sh" {
		t.Errorf("a link of the image's directory reads %q, %v", target, err)
	}
	if _, err := task.Solution(); err != nil {
		t.Error(err)
	}
}

func TestMissingDirectories(t *testing.T) {
	task := Load(t.TempDir())
	for name, get := range map[string]func() (fs.FS, error){"environment": task.Environment, "solution": task.Solution, "tests": task.Tests} {
		if _, err := get(); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if task.HasDockerfile() || task.HasSolution() {
		t.Error("an empty task has a Dockerfile or a solution")
	}
}
