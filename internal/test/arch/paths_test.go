package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pathsHome is the package that defines the special paths in an environment.
const pathsHome = "internal/core/environment"

// specialPath matches a special path in a string, also within a sentence or a script, but not as
// the end of another path (such as ".github/workflows/rollout"). Source: specification, "special
// paths"; /solution is Harbor's, /rollout has the agent's scripts.
var specialPath = regexp.MustCompile(`(?:^|[^\w./%$})~*-])/(?:tests|logs|oracle|solution|rollout)(?:[^\w.-]|$)`)

// spelling is a rule about paths: only the package home may contain literals that match.
type spelling struct {
	what string
	home string
	like *regexp.Regexp
	// allowed maps the other packages that contain such literals to the number of them and the
	// reason. A number may only fall.
	allowed map[string]exception
}

type exception struct {
	strings int
	why     string
}

var spellings = []spelling{
	{"special paths", pathsHome, specialPath, map[string]exception{
		"internal/run/prove": {2, "hints for the authors of tasks, who write these paths in their scripts"},
	}},
	{"files of the jobs tree", treeHome, treePath, map[string]exception{
		"internal/cli/command": {1, "help texts, as users read them"},
		"internal/cli/flags":   {4, "help texts, as users read them"},
		"internal/cli/look":    {5, "help texts, as users read them"},
		"internal/cli/run":     {4, "help texts, as users read them"},
		"providers/docker":     {1, "the config.json of the Docker command line"},
	}},
}

// treeHome is the package that defines the files and directories of the jobs tree.
const treeHome = "internal/core/result"

// treePath matches the name of a file in a job's or a trial's directory, also within a sentence,
// and paths that begin with a trial's directories.
var treePath = regexp.MustCompile(`(?:^|[^\w.-])(?:(?:result|config|plan|merge|metadata)\.json|(?:events|outputs)\.jsonl|` +
	`(?:error|stdout|stderr)\.txt|SHA256SUMS|superseded|\.rollout\.lock)\b|^\.tmp-|^(?:setup|command|logs|artifacts)/`)

// stringsLike returns the matching string literals in a Go file, with their positions.
func stringsLike(like *regexp.Regexp, fset *token.FileSet, f *ast.File) []string {
	var out []string
	ast.Inspect(f, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		if text, err := strconv.Unquote(lit.Value); err == nil && like.MatchString(text) {
			out = append(out, fmt.Sprintf("%s: %.80q", fset.Position(lit.Pos()), text))
		}
		return true
	})
	return out
}

// helpsTests reports whether a package only serves tests. Their scripts contain paths as tasks do.
func helpsTests(name string) bool {
	base := path.Base(name)
	return slices.Contains([]string{"bench", "internal/test/actiontest", "internal/test/testenv", "internal/test/testregistry", "internal/test/testsets", "internal/test/arch", "examples"}, name) ||
		strings.HasSuffix(base, "test") || strings.HasPrefix(name, "internal/core/environment/environmenttest/")
}

// eachFile parses the Go files of all systems, except tests, and calls do with each and the name of
// its package. It opens each, so go test's cache notices changes.
func eachFile(t *testing.T, do func(name string, fset *token.FileSet, f *ast.File)) {
	t.Helper()
	files := 0
	err := filepath.WalkDir("../../..", func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() && (e.Name() == "testdata" || e.Name() == ".git") {
			if err == nil {
				err = fs.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		files++
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel("../../..", filepath.Dir(file))
		if err != nil {
			return err
		}
		do(filepath.ToSlash(dir), fset, parsed)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 300 {
		t.Fatalf("only %d files: the check looks at the wrong directory", files)
	}
}

func TestSpellings(t *testing.T) {
	for _, rule := range spellings {
		t.Run(rule.what, func(t *testing.T) { rule.check(t) })
	}
}

func (rule spelling) check(t *testing.T) {
	found := map[string][]string{}
	eachFile(t, func(name string, fset *token.FileSet, f *ast.File) {
		if list := stringsLike(rule.like, fset, f); len(list) > 0 && !helpsTests(name) {
			found[name] = append(found[name], list...)
		}
	})
	if len(found[rule.home]) == 0 {
		t.Errorf("%s spells no %s, so the check sees none", rule.home, rule.what)
	}
	delete(found, rule.home)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		switch n, allowed := len(found[name]), rule.allowed[name].strings; {
		case n > allowed:
			t.Errorf("%s spells %s in %d strings, %d are allowed: use the constants of %s\n\t%s",
				name, rule.what, n, allowed, rule.home, strings.Join(found[name], "\n\t"))
		case n < allowed:
			t.Errorf("%s spells %s in %d strings only: lower its number in internal/test/arch/paths_test.go", name, rule.what, n)
		}
	}
	for name, exception := range rule.allowed {
		if len(found[name]) == 0 {
			t.Errorf("%s spells no %s any more: remove it from internal/test/arch/paths_test.go", name, rule.what)
		}
		if exception.why == "" {
			t.Errorf("%s: say why it spells %s", name, rule.what)
		}
	}
}

func TestTreePathsInStrings(t *testing.T) {
	for text, want := range map[string]bool{
		"result.json":                         true,
		"jobs/main/result.json":               true,
		"%s: there is no plan.json.":          true,
		"the trial's error.txt":               true,
		"setup/stdout.txt":                    true,
		"moved to superseded/, so":            true,
		"logs/verifier":                       true,
		".rollout.lock":                       true,
		"artifacts":                           false, // a key of task.toml
		"command":                             false, // an input of the Action
		"registry.json":                       false,
		"https://example.org/my-result.json":  false,
		"a result.jsonnet":                    false,
		"see the logs/ of the task":           false,
		"/artifacts/%s/%d":                    false,
		"outputs, as in the job's directory":  false,
		"a job's logs; /logs/artifacts":       false,
		"superseded_by":                       false,
		"write the report (plan.json is old)": true,
	} {
		if got := treePath.MatchString(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestSpecialPathsInStrings(t *testing.T) {
	for text, want := range map[string]bool{
		"/tests":                          true,
		"/logs/verifier":                  true,
		"rm -rf /tests; true":             true,
		"echo 1 > /logs/reward":           true,
		`"/oracle/solve.sh"`:              true,
		".github/workflows/rollout.yml":   false,
		"%s/rollout-%d/sandbox":           false,
		"/root/.cache/rollout":            false,
		"solution/solve.sh":               false,
		"task/logs/":                      false,
		"/rollout-killer":                 false,
		"/testsuite":                      false,
		"https://example.com/logs":        false,
		"write a number to /logs, please": true,
	} {
		if got := specialPath.MatchString(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// variablesHome is the package that reads the variables that GitHub Actions sets for a step.
const variablesHome = "internal/lib/ghvars"

// gitHubVariable matches the name of such a variable, but not a sentence that mentions one.
var gitHubVariable = regexp.MustCompile(`^GITHUB_[A-Z_]*$`)

func TestGitHubVariables(t *testing.T) {
	home := 0
	eachFile(t, func(name string, fset *token.FileSet, f *ast.File) {
		list := stringsLike(gitHubVariable, fset, f)
		if name == variablesHome {
			home += len(list)
			return
		}
		if len(list) > 0 && !helpsTests(name) {
			t.Errorf("%s spells variables of GitHub Actions: use %s\n\t%s", name, variablesHome, strings.Join(list, "\n\t"))
		}
	})
	if home == 0 {
		t.Errorf("%s spells no variable, so the check sees none", variablesHome)
	}
}
