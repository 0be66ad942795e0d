package mine

import (
	"embed"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

// files has the scripts of the tasks, and their task.toml as a template.
//
//go:embed files
var files embed.FS

// runner runs the tests of a language and tells their names.
type runner struct {
	script  string   // in files
	markers []string // files in the directory of a module, in which tests run
	// propose returns an image and the commands that prepare it in the module's directory.
	propose func(m module) (image string, run []string)
	// targets turns test files, relative to the module, into what the script runs.
	targets func(files []string) []string
}

// runners are the runners by language.
var runners = map[string]runner{
	"go":         {"run-go.sh", []string{"go.mod"}, proposeGo, packagesOf},
	"python":     {"run-python.sh", []string{"pyproject.toml", "setup.py", "setup.cfg", "requirements.txt"}, proposePython, same},
	"javascript": {"run-javascript.sh", []string{"package.json"}, proposeNode, same},
	"shell":      {"run-shell.sh", nil, proposeShell, same},
}

func same(files []string) []string { return files }

// packagesOf returns the packages of files as go test takes them.
func packagesOf(files []string) []string {
	var out []string
	for _, file := range files {
		out = append(out, "./"+path.Dir(file))
	}
	return unique(out)
}

// module is a directory with its own dependencies in a repository.
type module struct {
	root *os.Root
	dir  string // "." is the repository's root
}

// has reports whether the module's directory has a file.
func (m module) has(name string) bool {
	info, err := m.root.Lstat(path.Join(m.dir, name))
	return err == nil && info.Mode().IsRegular()
}

// text returns the beginning of a file of the module; "" if there is none.
func (m module) text(name string) string {
	if !m.has(name) {
		return ""
	}
	f, err := m.root.Open(path.Join(m.dir, name))
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, 1<<20))
	return string(text)
}

// moduleOf returns the directory of the module that a file is in.
func (r runner) moduleOf(root *os.Root, file string) string {
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		if slices.ContainsFunc(r.markers, module{root, dir}.has) {
			return dir
		}
	}
	return "."
}

var goVersion = regexp.MustCompile(`(?m)^go (1\.[0-9]+)`)

func proposeGo(m module) (string, []string) {
	image := "golang:1"
	if found := goVersion.FindStringSubmatch(m.text("go.mod")); found != nil {
		image = "golang:" + found[1]
	}
	return image, []string{"go mod download", "go test -count=1 -run '^$' ./... > /dev/null 2>&1 || true # fills the cache of builds"}
}

// requirements are the files that list what a module of Python and its tests need.
var requirements = []string{
	"requirements.txt", "requirements-dev.txt", "requirements-test.txt", "requirements_dev.txt", "dev-requirements.txt", "test-requirements.txt",
}

// IsManifest reports whether the proposed Dockerfile may depend on a file.
func IsManifest(name string) bool {
	base := path.Base(name)
	for _, r := range runners {
		if slices.Contains(r.markers, base) {
			return true
		}
	}
	return slices.Contains(requirements, base) || slices.Contains([]string{"package-lock.json", "tox.ini", "pytest.ini"}, base)
}

func proposePython(m module) (string, []string) {
	const install = "pip install --no-cache-dir "
	var run []string
	said := m.text("pyproject.toml") + m.text("setup.cfg") + m.text("setup.py") + m.text("tox.ini") + m.text("pytest.ini")
	if m.has("pytest.ini") {
		said += "pytest"
	}
	for _, name := range requirements {
		if m.has(name) {
			run = append(run, install+"-r "+name)
			said += m.text(name)
		}
	}
	if m.has("setup.py") || strings.Contains(m.text("pyproject.toml"), "[project]") || strings.Contains(m.text("pyproject.toml"), "[build-system]") {
		run = append(run, install+"-e .")
	}
	if strings.Contains(said, "pytest") {
		run = append(run, install+"pytest")
	}
	return "python:3.12", run
}

func proposeNode(m module) (string, []string) {
	switch {
	case m.has("package-lock.json"):
		return "node:22", []string{"npm ci"}
	case strings.Contains(m.text("package.json"), `ependencies"`):
		return "node:22", []string{"npm install"}
	}
	return "node:22", nil
}

func proposeShell(module) (string, []string) { return "debian:bookworm", nil }

// otherRunner returns the runner that a module of JavaScript uses in place of node --test; "" if it
// uses none.
func otherRunner(m module) string {
	text := m.text("package.json")
	for _, name := range []string{"vitest", "jest", "mocha", "ava", "jasmine"} {
		if strings.Contains(text, `"`+name+`"`) {
			return name
		}
	}
	return ""
}

// plainPath matches the paths that can stand in a Dockerfile.
var plainPath = regexp.MustCompile(`^[A-Za-z0-9_./-]+$`)

// dockerfile returns the Dockerfile that Rollout proposes for a module.
func (r runner) dockerfile(m module, image string) string {
	proposed, run := r.propose(m)
	if image == "" {
		image = proposed
	}
	var b strings.Builder
	b.WriteString("# Proposed by rollout mine. With another one, which has to copy repo/ to /app: rollout mine --dockerfile FILE\nFROM " + image + "\nCOPY repo/ /app/\n")
	if len(run) > 0 && m.dir != "." {
		b.WriteString("WORKDIR /app/" + m.dir + "\n")
	} else {
		b.WriteString("WORKDIR /app\n")
	}
	for _, line := range run {
		b.WriteString("RUN " + line + "\n")
	}
	if len(run) > 0 && m.dir != "." {
		b.WriteString("WORKDIR /app\n")
	}
	return b.String()
}

func script(name string) []byte {
	text, err := fs.ReadFile(files, "files/"+name)
	if err != nil {
		panic(err) // the program is built with it
	}
	return text
}
