package main

import (
	"slices"
	"strings"
)

// part is a unit of CI that is run or skipped as a whole.
type part struct {
	name  string
	tests []string // packages whose tests run, with their dependencies
	built []string // packages of programs that run, with their dependencies
	code  []string // packages of such programs, without their dependencies
	reads []string // files and directories read at run time, except those in the directories of tests
	tools []string // programs of the machine that its tests run, whose versions matter
	names bool     // whether the names of all files matter, whatever they contain
}

// The programs that parts run: rollout as it is released, and the program of pods, which it embeds.
const (
	rollout    = module + "/cmd/rollout"
	podProgram = module + "/providers/kubernetes/internal/podprogram"
)

// everything stands for the whole repository in a list of files.
const everything = "."

// always lists files that affect how every part runs.
var always = []string{".ci/run", ".ci/lib.sh"}

// ofAction lists the files of the Action.
var ofAction = []string{".ci/pin-release", ".ci/pin-workflow", ".dockerignore", ".github/actionlint.yaml", ".github/workflows", "Dockerfile", "action.yml", "examples", "setup", "templates"}

// ofDocs lists the pages and the files that they describe.
var ofDocs = []string{".ci/README.md", ".github", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SCOPE.md", "docs", "internal/app/scaffold", "templates"}

// reads lists the files outside of its directory that the tests of a package read. .ci/nightly
// monitors the tests, and fails if one reads another file of the repository.
var reads = map[string][]string{
	"./examples":                 ofDocs,
	"./internal/test/actiontest": ofAction,
	"./internal/test/arch":       {everything},
	"./internal/cli":             {everything},
	"./internal/run/job/resume":  {"internal/core/result/trial.go"},
	"./internal/test/testsets":   {everything},
	"./providers/kubernetes":     {"docs/providers/kubernetes.md", "examples/kubernetes"},
	"./providers/sandbox":        {"go.mod", "go.sum"}, // a test compiles them
}

// uses lists the programs of the machine that the tests of a package run, of those whose versions
// CI knows. All digests have the version of git.
var uses = map[string][]string{
	"./cmd/rollout":                 {"node", "python"},
	"./examples":                    {"python"},
	"./internal/core/agent/presets": {"node", "python"},
	"./internal/run/mine":           {"cargo", "make", "node", "python"},
	"./internal/run/trial":          {"python"},
	"./internal/test/actiontest":    {"node"},
	"./internal/test/browsertest":   {"chromium", "node"},
	"./providers/internal/confine":  {"python"},
	"./providers/internal/podinit":  {"python"},
	"./providers/sandbox":           {"python"},
}

// runReleased lists the packages whose tests run the released binary.
var runReleased = []string{"./cmd/rollout", "./examples", "./internal/test/actiontest"}

// alone lists the packages whose tests form a separate, named part instead of belonging to the part
// tests.
var alone = []string{"./cmd/rollout", "./examples", "./internal/test/actiontest", "./internal/test/browsertest"}

// parts returns all parts of CI that can be skipped, sorted by name.
func parts(packages map[string]*listed) ([]part, error) {
	var all []part
	for path, p := range packages {
		if packages[path+".test"] != nil && p.ForTest == "" && !slices.Contains(alone, local(path)) {
			all = append(all, testsOf("tests "+local(path), local(path)))
		}
	}
	for _, set := range []string{"user", "ids"} {
		names, err := choose(packages, set)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			p := testsOf(set+" "+name, name)
			p.reads = append(p.reads, ".ci/without-docker")
			all = append(all, p)
		}
	}

	// Of the code that the Action runs, its tests see only the packages that are for it. The rest
	// is tested with the program.
	action := testsOf("action", "./internal/test/actiontest")
	action.built = nil
	action.code = servesAction(packages)
	action.reads = append(action.reads, "internal/cli")
	image := testsOf("source-image", "./internal/test/actiontest")
	image.built, image.reads = nil, []string{".dockerignore", "Dockerfile", "go.mod", "go.sum"}

	proof := testsOf("proof", "./examples")
	proof.names, proof.reads = false, released

	node := testsOf("kubernetes", "./providers/kubernetes")
	node.built = append(node.built, podProgram, module+"/internal/test/testregistry", module+"/.ci/pause")
	node.reads = append(node.reads, ".ci/build-podprogram", ".ci/kubernetes")
	trials := testsOf("kubernetes-program", "./bench", "./cmd/rollout", "./examples", "./providers/kubernetes")
	trials.names, trials.built = false, append(trials.built, node.built...)
	trials.reads = slices.Concat(node.reads, released, []string{".dockerignore", "Dockerfile"})

	all = append(all, action, image, proof, node, trials,
		testsOf("buildkit", "./providers/internal/registryimage"), testsOf("datasets", "./examples"),
		testsOf("podman", "./providers/docker"), testsOf("pages", "./internal/test/browsertest"), testsOf("program", "./cmd/rollout"))
	slices.SortFunc(all, func(a, b part) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// servesAction returns the packages that are for the Action: those that know workflows, and those
// that import them.
func servesAction(packages map[string]*listed) []string {
	knows := func(path string) bool {
		return path == module+"/internal/action" || path == module+"/internal/lib/ghvars" || strings.HasPrefix(path, module+"/internal/forge/")
	}
	var found []string
	for path, p := range packages {
		if p.ours() && p.ForTest == "" && !strings.HasSuffix(path, ".test") && !strings.HasPrefix(path, module+"/internal/test/") &&
			(knows(path) || slices.ContainsFunc(p.Imports, knows)) {
			found = append(found, path)
		}
	}
	slices.Sort(found)
	return found
}

// released lists the files with which the released binary is built.
var released = []string{".ci/build-podprogram"}

// testsOf returns a part that runs the tests of some packages, which are local names.
func testsOf(name string, packages ...string) part {
	p := part{name: name}
	for _, of := range packages {
		p.tests = append(p.tests, module+strings.TrimPrefix(of, "."))
		p.reads = append(p.reads, reads[of]...)
		p.tools = append(p.tools, uses[of]...)
		if slices.Contains(runReleased, of) {
			p.built = []string{rollout, podProgram}
			p.reads = append(p.reads, released...)
		}
		p.names = p.names || of == "./examples"
	}
	return p
}
