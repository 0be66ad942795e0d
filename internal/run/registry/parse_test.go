package registry_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/run/registry"
)

// public returns the public registry as of 2026-02-12.
func public(tb testing.TB) []byte {
	tb.Helper()
	f, err := os.Open(filepath.Join("testdata", "harbor-2026-02-12.json.gz"))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		tb.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

func TestParseThePublicRegistry(t *testing.T) {
	r, err := registry.Parse("registry.json", public(t))
	if err != nil {
		t.Fatal(err)
	}
	tasks := 0
	for i := range r.Datasets {
		d := &r.Datasets[i]
		tasks += len(d.Tasks)
		if problems := r.Check(d); len(problems) > 0 {
			t.Errorf("%s: %v", d.Label(), problems)
		}
		if _, err := r.Find(d.Name, d.Version); err != nil {
			t.Error(err)
		}
	}
	if len(r.Datasets) != 43 || tasks != 12833 {
		t.Errorf("%d datasets with %d tasks", len(r.Datasets), tasks)
	}
	for name, want := range map[string]string{"terminal-bench": "2.0", "ds-1000": "head", "autocodebench": "lite200", "swe-lancer-diamond": "manager"} {
		if d, err := r.Find(name, ""); err != nil || d.Version != want {
			t.Errorf("%s: %v, %v", name, d.Version, err)
		}
	}
	d, err := r.Find("terminal-bench", "2.0")
	if err != nil || len(d.Tasks) != 89 || d.Tasks[0].GitCommitID != "69671fbaac6d67a7ef0dfec016cc38a64ef7a77c" {
		t.Errorf("%v, %v", d, err)
	}
	for _, tc := range []struct{ name, version, want string }{
		{"terminal-bnch", "", `there is no dataset "terminal-bnch" in registry.json (did you mean "terminal-bench"? there are: aider-polyglot, aime, algotune, `},
		{"terminal-bench", "2.1", `dataset "terminal-bench" has no version "2.1" in registry.json (did you mean "2.0"? there are: 2.0)`},
		{"swe-lancer-diamond", "x", `dataset "swe-lancer-diamond" has no version "x" in registry.json (there are: all, ic, manager)`},
	} {
		if _, err := r.Find(tc.name, tc.version); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s@%s: %v\nwant %s", tc.name, tc.version, err, tc.want)
		}
	}
}

func TestParseReportsProblems(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"nothing", ``, "r.json:1:1: not valid JSON: unexpected EOF"},
		{"a missing comma", "[\n  {\"name\": \"a\"\n   \"version\": \"1\"}\n]", "r.json:3:4: not valid JSON: invalid character '\"' after object value (expecting ',' or '}')"},
		{"an object", `{"datasets": []}`, "r.json:1:1: the registry must not be an object (a registry is a list of datasets)"},
		{"a number for a path", "[{\"name\": \"a\", \"tasks\": [\n{\"path\": 3}]}]", "r.json:2:10: 0.tasks.0.path must not be a number"},
		{"a key twice", `[{"name": "a", "name": "b"}]`, `r.json:1:16: duplicate key "name"`},
		{"no UTF-8", "[{\"name\": \"\xff\"}]", "r.json:1:12: not valid JSON: invalid UTF-8"},
		{"trailing data", `[] []`, "r.json:1:4: not valid JSON: invalid character '[' after top-level value"},
		{"too many datasets", "[" + strings.Repeat(`{"description":"a dataset with a description of one sentence, as most have"},`, 10_000) + "{}]", "r.json: the registry has 10001 datasets with 0 tasks, more than the 10000 and 500000 that are allowed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := registry.Parse("r.json", []byte(tc.text)); err == nil || err.Error() != tc.want {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
		})
	}
}

func TestFindReportsProblems(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"no tasks", `[{"name": "d"}]`, "r.json:1:2: dataset d has no tasks"},
		{"a dataset twice", "[{\"name\": \"d\", \"tasks\": []},\n {\"name\": \"d\"}]", "r.json:2:2: dataset d is listed twice"},
		{"a task twice", "[{\"name\": \"d\", \"version\": \"1\", \"tasks\": [{\"name\": \"t\"},\n{\"name\": \"t\"}]}]", `r.json:2:1: dataset d@1 has two tasks called "t"`},
		{"two names, one directory", `[{"name": "d", "tasks": [{"name": "a?"}, {"name": "a*"}]}]`, `r.json:1:42: the tasks "a?" and "a*" of d would share the result directory "a-"`},
		{"a task without a name", `[{"name": "d", "tasks": [{"path": "p"}]}]`, "r.json:1:26: the name of a task of d is missing"},
		{"a name with an escape sequence", `[{"name": "d", "tasks": [{"name": "a\u001b[2Jb"}]}]`, `r.json:1:26: the name of a task of d contains control characters: "a\x1b[2Jb"`},
		{"an endless name", `[{"name": "d", "tasks": [{"name": "` + strings.Repeat("n", 300) + `"}]}]`, "r.json:1:26: the name of a task of d is longer than 200 characters"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := registry.Parse("r.json", []byte(tc.text))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Find("d", ""); err == nil || err.Error() != tc.want {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
		})
	}
}

func TestSplitLabel(t *testing.T) {
	for label, want := range map[string][2]string{"a": {"a", ""}, "a@1": {"a", "1"}, "@org/a": {"@org/a", ""}, "@org/a@2.0": {"@org/a", "2.0"}, "a@": {"a", ""}} {
		if name, version := registry.SplitLabel(label); name != want[0] || version != want[1] {
			t.Errorf("%s: %s, %s", label, name, version)
		}
	}
}

// The goal for BenchmarkParse is less than 300 ms for the public registry. BenchmarkBare is
// encoding/json alone.
func BenchmarkParse(b *testing.B) {
	text := public(b)
	for b.Loop() {
		if _, err := registry.Parse("registry.json", text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBare(b *testing.B) {
	text := public(b)
	for b.Loop() {
		var all []registry.Dataset
		if err := json.Unmarshal(text, &all); err != nil {
			b.Fatal(err)
		}
	}
}
