package mine

import (
	"cmp"
	"embed"
	"io/fs"
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
	scripts []string // in files; the first one is run
	markers []string // files in the directory of a module, in which tests run
	reads   []string // other files that plan reads, relative to the directory of a module
	// plan says how the test files of a module run; they are relative to the module.
	plan func(m module, tests []string) plan
}

// plan says how tests run.
type plan struct {
	lacks string // why they cannot run, safe to print; "": they can

	image   string   // of the proposed Dockerfile
	prepare []string // commands of the proposed Dockerfile
	at      string   // the directory in which prepare runs

	dir     string   // the directory in which the tests run
	targets []string // what the script runs, one a line
	command []string // more for the script, one a line
}

// runners are the runners by their names.
var runners = map[string]runner{
	"go":     {[]string{"run-go.sh"}, []string{"go.mod"}, nil, planGo},
	"python": {[]string{"run-python.sh"}, []string{"pyproject.toml", "setup.py", "setup.cfg", "requirements.txt"}, append([]string{"tox.ini", "pytest.ini"}, requirements...), planPython},
	"node":   {[]string{"run-node.sh", "run-javascript.sh"}, []string{"package.json"}, lockFiles, planNode},
	"shell":  {[]string{"run-shell.sh"}, nil, nil, planShell},
	"cargo":  {[]string{"run-cargo.sh"}, []string{"Cargo.toml"}, []string{"src/lib.rs"}, planCargo},
	"maven":  {[]string{"run-maven.sh", "junit.awk"}, []string{"pom.xml"}, nil, planMaven},
	"make":   {[]string{"run-make.sh", "junit.awk"}, makefiles, nil, planMake},
}

// runnerOf returns the name of the runner of a language's tests.
func runnerOf(language string) string {
	switch language {
	case "javascript", "typescript":
		return "node"
	case "rust":
		return "cargo"
	case "java", "kotlin", "scala":
		return "maven"
	}
	if _, known := runners[language]; known {
		return language
	}
	return "make"
}

// module is a directory with its own dependencies in a commit.
type module struct {
	dir string // "." is the repository's root
	// manifests are the beginnings of the files that runners read, by their names in the commit.
	manifests map[string]string
	language  string // of the tests
}

// has reports whether the module's directory has a file.
func (m module) has(name string) bool {
	_, found := m.manifests[path.Join(m.dir, name)]
	return found
}

// hasOne reports whether the module's directory has one of some files.
func (m module) hasOne(names ...string) bool { return slices.ContainsFunc(names, m.has) }

// text returns the beginning of a file of the module; "" if there is none.
func (m module) text(name string) string { return m.manifests[path.Join(m.dir, name)] }

// in returns the module in another directory of the same commit.
func (m module) in(dir string) module { return module{dir, m.manifests, m.language} }

// relative returns a file's name relative to the module.
func (m module) relative(name string) string {
	if m.dir == "." {
		return name
	}
	return strings.TrimPrefix(name, m.dir+"/")
}

// around returns the module of a runner that a file is in.
func (m module) around(file string, r runner) module {
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		if m.in(dir).hasOne(r.markers...) {
			return m.in(dir)
		}
	}
	return m.in(".")
}

// packagesOf returns the packages of files as go test takes them.
func packagesOf(files []string) []string {
	var out []string
	for _, file := range files {
		out = append(out, "./"+path.Dir(file))
	}
	return unique(out)
}

var goVersion = regexp.MustCompile(`(?m)^go (1\.[0-9]+)`)

func planGo(m module, tests []string) plan {
	image := "golang:1"
	if found := goVersion.FindStringSubmatch(m.text("go.mod")); found != nil {
		image = "golang:" + found[1]
	}
	prepare := []string{"go mod download", "go test -count=1 -run '^$' ./... > /dev/null 2>&1 || true # fills the cache of builds"}
	return plan{image: image, prepare: prepare, targets: packagesOf(tests)}
}

// requirements are the files that list what a module of Python and its tests need.
var requirements = []string{
	"requirements.txt", "requirements-dev.txt", "requirements-test.txt", "requirements_dev.txt", "dev-requirements.txt", "test-requirements.txt",
}

func planPython(m module, tests []string) plan {
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
	return plan{image: "python:3.12", prepare: run, targets: tests}
}

func planShell(_ module, tests []string) plan {
	return plan{image: "debian:bookworm", targets: tests}
}

// plainPath matches the paths that can stand in a Dockerfile.
var plainPath = regexp.MustCompile(`^[A-Za-z0-9_./@+-]+$`)

// dockerfile returns the Dockerfile that Rollout proposes for a plan; image replaces the plan's, if
// it is not "".
func (p plan) dockerfile(image string) string {
	var b strings.Builder
	b.WriteString("# Proposed by rollout mine. With another one, which has to copy repo/ to /app: rollout mine --dockerfile FILE\nFROM " + cmp.Or(image, p.image) + "\nCOPY repo/ /app/\n")
	below := len(p.prepare) > 0 && p.at != "."
	if below {
		b.WriteString("WORKDIR /app/" + p.at + "\n")
	} else {
		b.WriteString("WORKDIR /app\n")
	}
	for _, line := range p.prepare {
		b.WriteString("RUN " + line + "\n")
	}
	if below {
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
