package main

import (
	"bytes"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// here is this repository, read once.
var here = sync.OnceValues(func() (*tree, error) {
	if err := os.Chdir("../../.."); err != nil {
		return nil, err
	}
	defer os.Chdir("internal/test/testsets")
	return treeHere()
})

func thisTree(t *testing.T) (*tree, []part) {
	t.Helper()
	tree, err := here()
	if err != nil {
		t.Fatal(err)
	}
	all, err := parts(tree.packages)
	if err != nil {
		t.Fatal(err)
	}
	return tree, all
}

// imported returns the directories of this repository's packages that the files of a directory
// import, from their text, independent of go list.
func imported(t *testing.T, dir string, tests bool) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../../..", dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for _, file := range files {
		if !tests && strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range f.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if below, ok := strings.CutPrefix(name, module+"/"); ok {
				dirs = append(dirs, below)
			}
		}
	}
	return dirs
}

// TestPartsHaveAllThatTheyAreBuiltFrom compares the inputs with the imports in the source, of all
// systems and tags.
func TestPartsHaveAllThatTheyAreBuiltFrom(t *testing.T) {
	tree, all := thisTree(t)
	byDir := map[string][]string{} // imports of each directory, without tests
	var follow func(dirs []string, found map[string]bool)
	follow = func(dirs []string, found map[string]bool) {
		for _, dir := range dirs {
			if found[dir] {
				continue
			}
			found[dir] = true
			if _, ok := byDir[dir]; !ok {
				byDir[dir] = imported(t, dir, false)
			}
			follow(byDir[dir], found)
		}
	}
	for _, p := range all {
		files, modules, err := tree.inputs(p)
		if err != nil {
			t.Error(err)
			continue
		}
		found := map[string]bool{}
		for _, name := range p.tests {
			follow(append(imported(t, local(name)[2:], true), local(name)[2:]), found)
		}
		for _, name := range p.built {
			follow([]string{local(name)[2:]}, found)
		}
		for dir := range found {
			for _, file := range tree.byDir[dir] {
				if strings.HasSuffix(file, "_test.go") && !slices.Contains(p.tests, module+"/"+dir) {
					continue
				}
				if _, ok := slices.BinarySearch(files, file); !ok && strings.HasSuffix(file, ".go") && !otherSystem(tree, dir) {
					t.Errorf("the part %s is built from %s, but it is not among its inputs", p.name, file)
				}
			}
		}
		if len(found) > 20 && len(modules) == 0 {
			t.Errorf("the part %s is built from %d packages, but from no module", p.name, len(found))
		}
	}
}

// otherSystem reports whether no package on this system depends on dir.
func otherSystem(t *tree, dir string) bool { return t.packages[path.Join(module, dir)] == nil }

// inputsOf returns the inputs of all parts, by name.
var inputsOf = sync.OnceValues(func() (map[string][]string, error) {
	t, err := here()
	if err != nil {
		return nil, err
	}
	all, err := parts(t.packages)
	if err != nil {
		return nil, err
	}
	found := map[string][]string{}
	for _, p := range all {
		if found[p.name], _, err = t.inputs(p); err != nil {
			return nil, err
		}
	}
	return found, nil
})

// reached returns the parts that have a file as input.
func reached(t *testing.T, file string) []string {
	t.Helper()
	tree, _ := thisTree(t)
	if tree.digests[file] == "" {
		t.Fatalf("there is no file %s", file)
	}
	inputs, err := inputsOf()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for name, files := range inputs {
		if _, ok := slices.BinarySearch(files, file); ok {
			names = append(names, name)
		}
	}
	return names
}

func TestAChangeReachesWhatDependsOnIt(t *testing.T) {
	for _, tc := range []struct {
		file     string
		yes, not []string
	}{
		{"internal/lib/egress/proxy.go", []string{"kubernetes", "tests ./internal/lib/egress", "program", "proof"}, []string{"tests ./internal/core/gate", "tests ./internal/lib/plural"}},
		{"internal/lib/ghvars/ghvars.go", []string{"kubernetes", "buildkit", "program", "action"}, []string{"tests ./internal/lib/plural"}},
		{"internal/app/reporting/announce.go", []string{"action", "program"}, []string{"kubernetes", "source-image"}},
		{"internal/app/reporting/workflow.go", []string{"action"}, nil},
		{"internal/app/matrix.go", []string{"action"}, nil},
		{"internal/forge/comments/announce.go", []string{"action"}, nil},
		{"internal/core/task/load.go", []string{"proof", "datasets", "program", "tests ./internal/app"}, []string{"kubernetes", "buildkit", "action", "source-image"}},
		{"internal/core/gate/check_test.go", []string{"tests ./internal/core/gate"}, []string{"program", "tests ./internal/app", "kubernetes", "pages"}},
		{"internal/run/trial/testdata/harbor/clean-log/task.toml", []string{"tests ./internal/run/trial", "tests ./internal/cli"}, []string{"program", "tests ./internal/app"}},
		{"docs/gate.md", []string{"datasets", "tests ./internal/cli", "tests ./internal/test/arch"}, []string{"proof", "program", "tests ./internal/core/gate"}},
		{"action.yml", []string{"action", "tests ./internal/cli"}, []string{"program", "kubernetes"}},
		{"Dockerfile", []string{"action", "source-image", "kubernetes-program"}, []string{"program", "kubernetes"}},
		{".ci/kubernetes", []string{"kubernetes", "kubernetes-program"}, []string{"program", "tests ./internal/core/gate"}},
		{".ci/run", []string{"action", "datasets", "ids ./providers/sandbox", "program", "tests ./internal/core/gate"}, nil},
		{".ci/without-docker", []string{"ids ./providers/sandbox", "user ./internal/cli"}, []string{"tests ./internal/core/gate"}},
		{"examples/datasets/README.md", []string{"proof", "datasets"}, []string{"program"}},
	} {
		names := reached(t, tc.file)
		for _, name := range tc.yes {
			if !slices.Contains(names, name) {
				t.Errorf("a change of %s does not reach the part %s", tc.file, name)
			}
		}
		for _, name := range tc.not {
			if slices.Contains(names, name) {
				t.Errorf("a change of %s reaches the part %s", tc.file, name)
			}
		}
	}
}

func TestADigestIsOfAllInputs(t *testing.T) {
	tree, all := thisTree(t)
	p := all[slices.IndexFunc(all, func(p part) bool { return p.name == "tests ./internal/core/gate" })]
	digest := func(machine string) string {
		t.Helper()
		sum, err := tree.digest(p, machine)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	one := digest("one")
	if digest("one") != one || digest("two") == one {
		t.Error("the machine makes no difference, or there is one without it")
	}
	before := *tree
	defer func() { *tree = before }()
	tree.module = "another Go"
	if digest("one") == one {
		t.Error("the version of Go makes no difference")
	}
	*tree = before
	tree.digests = maps.Clone(before.digests)
	tree.digests["internal/core/gate/policy.go"] = "other"
	if digest("one") == one {
		t.Error("a file makes no difference")
	}
	tree.digests = maps.Clone(before.digests)
	tree.digests["README.md"] = "other"
	if digest("one") != one {
		t.Error("a file that is no input makes a difference")
	}
	p.names = true
	named := digest("one")
	tree.digests["new"] = "other"
	if digest("one") == named {
		t.Error("the name of a file makes no difference")
	}
	_, modules, err := tree.inputs(p)
	if err != nil || len(modules) == 0 || !strings.Contains(modules[0], " v") {
		t.Errorf("modules are %q, %v", modules, err)
	}
}

func TestPartsThatNeedNotRun(t *testing.T) {
	if _, err := here(); err != nil { // before the directory changes
		t.Fatal(err)
	}
	t.Chdir("../../..")
	states := func(args ...string) map[string][]string {
		t.Helper()
		var out bytes.Buffer
		if err := changed(append(args, "-machine", "this"), &out); err != nil {
			t.Fatal(err)
		}
		found := map[string][]string{}
		for line := range strings.Lines(out.String()) {
			fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
			if len(fields) != 4 || len(fields[2]) != 64 {
				t.Fatalf("a line is %q", line)
			}
			found[fields[1]] = []string{fields[0], fields[2], fields[3]}
		}
		return found
	}
	records := t.TempDir()
	for name, of := range states("-records", records) {
		if of[0] != due {
			t.Errorf("without records and a base, the part %s is %q", name, of[0])
		}
		if name == "pages" {
			if err := os.WriteFile(filepath.Join(records, of[1]), []byte("yesterday\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, of := range states("-records", records, "-base", ".") {
		if name == "pages" && (of[0] != passed || of[2] != "yesterday") || name != "pages" && of[0] != same {
			t.Errorf("with a record of pages, and this checkout as the base, the part %s is %q", name, of)
		}
	}
	if of := states("-records", records, "-base", ".", "-all")["pages"]; of[0] != due {
		t.Errorf("although all is asked for, the part pages is %q", of)
	}
	if of := states("-base", t.TempDir())["pages"]; of[0] != due {
		t.Errorf("with an empty base, the part pages is %q", of)
	}
}

// A newer browser or interpreter may break what has passed.
func TestVersionsOfToolsBelongToDigests(t *testing.T) {
	if _, err := here(); err != nil { // before the directory changes
		t.Fatal(err)
	}
	t.Chdir("../../..")
	digests := func(tools map[string]string) map[string]string {
		t.Helper()
		found, _, err := digestsHere("this", tools)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	before := digests(map[string]string{"cargo": "1", "chromium": "1", "make": "1", "node": "1", "python": "1"})
	for tool, want := range map[string][]string{
		"cargo":    {"tests ./internal/run/mine", "user ./internal/run/mine"},
		"chromium": {"pages"},
		"make":     {"tests ./internal/run/mine"},
		"node":     {"action", "ids ./cmd/rollout", "pages", "program", "tests ./internal/core/agent/presets", "tests ./internal/run/mine"},
		"python":   {"datasets", "program", "tests ./internal/core/agent/presets", "tests ./internal/run/mine", "tests ./providers/internal/confine"},
	} {
		tools := map[string]string{"cargo": "1", "chromium": "1", "make": "1", "node": "1", "python": "1"}
		tools[tool] = "2"
		after := digests(tools)
		for _, name := range want {
			if after[name] == before[name] || before[name] == "" {
				t.Errorf("another version of %s makes no difference to the part %s", tool, name)
			}
		}
		if name := "tests ./internal/core/gate"; after[name] != before[name] {
			t.Errorf("another version of %s makes a difference to the part %s", tool, name)
		}
	}
}

// TestToolsOfTestsAreListed looks for the programs in the text of tests, also in scripts and in
// tables of cases.
func TestToolsOfTestsAreListed(t *testing.T) {
	runs := map[string]*regexp.Regexp{
		"cargo":    regexp.MustCompile(`"cargo"`),
		"chromium": regexp.MustCompile(`"chromium"`),
		"make":     regexp.MustCompile(`"make"`),
		"node":     regexp.MustCompile(`(Command|LookPath)\("node"|program: +"node"|"javascript", "node"`),
		"python":   regexp.MustCompile(`\bpython3\b`),
	}
	// Only texts of these tests name it, or it is that of an image.
	images := []string{"internal/core/task", "internal/output/ui", "internal/run/prove", "providers/docker", "providers/kubernetes"}
	tree, _ := thisTree(t)
	for dir, files := range tree.byDir {
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") && !strings.HasPrefix(file, "internal/test/browsertest/") || strings.HasPrefix(file, "internal/test/testsets/") {
				continue
			}
			text, err := os.ReadFile(filepath.Join("../../..", file))
			if err != nil {
				t.Fatal(err)
			}
			for tool, run := range runs {
				if run.Match(text) && !slices.Contains(uses["./"+dir], tool) && !slices.Contains(images, dir) {
					t.Errorf("%s runs %s, which is not among what ./%s uses", file, tool, dir)
				}
			}
		}
	}
}
