// Testsets prints the packages whose tests depend on something that differs between machines, so
// that CI repeats these tests, and no others, where it differs. It derives them from the source:
//
//	go run ./internal/test/testsets docker  # the tests are built from the provider docker
//	go run ./internal/test/testsets ids     # they use sandboxes, so subordinate ids matter
//	go run ./internal/test/testsets user    # these two, and what asks who runs it
//	go run ./internal/test/testsets pure    # they only compute: no race can happen
//	go run ./internal/test/testsets long    # some take long; a pattern of -run for these follows
//
// It also says which parts of CI a change reaches, and whether tests read files that this takes no
// notice of:
//
//	go run ./internal/test/testsets changed # all parts, with digests of what they depend on
//	go run ./internal/test/testsets reads DIR
//
// The names are relative to the top of the repository, as ./internal/cli, one a line.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// The packages that classify tests, and their module.
const (
	module  = "github.com/org/rollout-action"
	testenv = module + "/internal/test/testenv"
	docker  = module + "/providers/docker"
	sandbox = module + "/providers/sandbox"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "testsets:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) > 0 && args[0] == "changed" {
		return changed(args[1:], out)
	}
	if len(args) == 2 && args[0] == "reads" {
		return checkReads(args[1], out)
	}
	if len(args) != 1 {
		return errors.New("usage: testsets docker|ids|user|pure|long, testsets reads DIR, or testsets changed [-records DIR] [-base DIR] [-machine TEXT] [-tool NAME=VERSION]... [-all]")
	}
	packages, err := list()
	if err != nil {
		return err
	}
	var names []string
	switch args[0] {
	case "long":
		names, err = long(packages)
	case "pure":
		names, err = pure(packages)
	default:
		names, err = choose(packages, args[0])
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, strings.Join(names, "\n"))
	return err
}

// choose returns the packages of a set, sorted. An empty set is an error: it means that the rule no
// longer works.
func choose(packages map[string]*listed, set string) ([]string, error) {
	has, ok := map[string]func(*tested) bool{
		"docker": func(t *tested) bool { return t.docker },
		"ids":    func(t *tested) bool { return t.ids },
		"user":   func(t *tested) bool { return t.docker || t.ids || t.asks },
	}[set]
	if !ok {
		return nil, fmt.Errorf("unknown set %q", set)
	}
	all, err := judge(packages)
	if err != nil {
		return nil, err
	}
	var names []string
	for path, t := range all {
		if has(&t) {
			names = append(names, local(path))
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("the set %s is empty", set)
	}
	slices.Sort(names)
	return names, nil
}

// listed holds the used fields of `go list -test -json`. Source: go help list.
type listed struct {
	ImportPath   string
	Standard     bool
	Module       *listedModule
	Dir          string
	ForTest      string
	Imports      []string
	Deps         []string
	GoFiles      []string
	CgoFiles     []string
	TestGoFiles  []string
	XTestGoFiles []string
	TestImports  []string
	XTestImports []string
	EmbedFiles   []string
}

// ours reports whether the package belongs to this repository.
func (p *listed) ours() bool {
	return p.Module == nil && !p.Standard || p.Module != nil && p.Module.Path == module
}

type listedModule struct {
	Path, Version string
	Replace       *listedModule
}

func (m listedModule) String() string {
	if m.Replace != nil {
		return m.Path + " " + m.Version + " => " + m.Replace.String()
	}
	return m.Path + " " + m.Version
}

// list returns all packages of the module and their dependencies, and test binaries as <path>.test.
func list() (map[string]*listed, error) {
	cmd := exec.CommandContext(context.Background(), "go", "list", "-test", "-deps",
		"-json=ImportPath,Standard,Module,Dir,ForTest,Imports,Deps,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles,TestImports,XTestImports,EmbedFiles", module+"/...", module+"/.ci/pause")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	packages := map[string]*listed{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages, nil
		}
		if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		packages[p.ImportPath] = &p
	}
}

// tested holds the dependencies of a package's tests on the machine.
type tested struct {
	docker bool // their dependencies include the provider docker
	ids    bool // they import sandboxes or belong to them
	asks   bool // their dependencies ask which user runs them
}

// judge returns the dependencies of each package's tests on the machine; packages without tests are
// left out.
func judge(packages map[string]*listed) (map[string]tested, error) {
	asking := map[string]bool{}
	for path, p := range packages {
		if p.ForTest != "" || !p.ours() || strings.HasSuffix(path, ".test") {
			continue
		}
		asks, err := asksForUser(p.Dir, slices.Concat(p.GoFiles, p.CgoFiles))
		if err != nil {
			return nil, err
		}
		asking[path] = asks && path != testenv // which asks for tests that call NeedRoot, and for no others
	}
	all := map[string]tested{}
	for path, p := range packages {
		binary := packages[path+".test"]
		if p.ForTest != "" || binary == nil {
			continue
		}
		asks, err := asksForUser(p.Dir, slices.Concat(p.TestGoFiles, p.XTestGoFiles))
		if err != nil {
			return nil, err
		}
		t := tested{asks: asks || asking[path]}
		for _, dep := range binary.Deps {
			dep, _, _ = strings.Cut(dep, " ") // "x [x.test]" is x built for its test
			t.docker = t.docker || dep == docker
			t.asks = t.asks || asking[dep]
		}
		for _, name := range slices.Concat([]string{path}, p.TestImports, p.XTestImports) {
			t.ids = t.ids || name == sandbox || strings.HasPrefix(name, sandbox+"/")
		}
		all[path] = t
	}
	return all, nil
}

// asking lists the functions by which a program determines its user, and a test the features of the
// machine for that user.
var asking = []string{
	"os.Getuid", "os.Geteuid", "os.Getgid", "os.Getegid", "os.Getgroups",
	"syscall.Getuid", "syscall.Geteuid", "syscall.Getgid", "syscall.Getegid",
	"unix.Getuid", "unix.Geteuid", "unix.Getgid", "unix.Getegid",
	"user.Current", "testenv.NeedRoot", "testenv.NeedDocker", "testenv.Lacks",
}

// asked has the answers of asksForUser about single files. Both sets need them.
var asked = map[string]bool{}

// asksForUser reports whether one of the files mentions a function of asking.
func asksForUser(dir string, files []string) (bool, error) {
	for _, name := range files {
		file := filepath.Join(dir, name)
		asks, known := asked[file]
		if !known {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				return false, err
			}
			asks = mentions(f, asking...)
			asked[file] = asks
		}
		if asks {
			return true, nil
		}
	}
	return false, nil
}
