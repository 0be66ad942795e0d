package step

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// env returns an environment with these variables.
func env(values map[string]string) Getenv {
	return func(name string) (string, bool) {
		value, ok := values[name]
		return value, ok
	}
}

// readFile parses a file of values by the runner's rules. Source: actions/runner,
// FileCommandManager.cs, EnvFileKeyValuePairs.
func readFile(t *testing.T, path string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	rest := string(data)
	line := func() (string, bool) {
		if rest == "" {
			return "", false
		}
		before, after, _ := strings.Cut(rest, "\n")
		rest = after
		return strings.TrimSuffix(before, "\r"), true
	}
	for {
		head, more := line()
		if !more {
			return out
		}
		if head == "" {
			continue
		}
		equals, heredoc := strings.Index(head, "="), strings.Index(head, "<<")
		if equals >= 0 && (heredoc < 0 || equals < heredoc) {
			out[head[:equals]] = head[equals+1:]
			continue
		}
		if heredoc <= 0 {
			t.Fatalf("Invalid format %q", head)
		}
		name, delimiter := head[:heredoc], head[heredoc+2:]
		start := rest
		end := 0
		for {
			at := len(start) - len(rest)
			next, more := line()
			if !more {
				t.Fatalf("Matching delimiter not found %q", delimiter)
			}
			if next == delimiter {
				end = at
				break
			}
		}
		out[name] = strings.TrimSuffix(start[:end], "\n")
	}
}

func TestOutputValueCannotSetOtherOutputs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "output")
	getenv := env(map[string]string{"GITHUB_OUTPUT": file})
	values := map[string]string{
		"plain":     "0.5",
		"empty":     "",
		"lines":     "one\ntwo\n\nthree\n",
		"like-one":  "x\nverdict=pass",
		"heredoc":   "x\nverdict<<EOF\npass\nEOF",
		"fixed":     "x\n_GitHubActionsFileCommandDelimeter_\nverdict=pass\ny<<_GitHubActionsFileCommandDelimeter_",
		"delimiter": "ghadelimiter_0\nrollout_\n<<\n=",
		"json":      `{"include":[{"shard":"1/4"}]}`,
		"returns":   "a\r\nb\rc",
		"verdict":   "fail",
	}
	for name, value := range values {
		if err := SetOutput(getenv, name, value); err != nil {
			t.Fatal(err)
		}
	}
	got := readFile(t, file)
	if len(got) != len(values) {
		t.Errorf("%d outputs, want %d: %q", len(got), len(values), got)
	}
	for name, value := range values {
		if got[name] != value {
			t.Errorf("%s is %q, want %q", name, got[name], value)
		}
	}
}

func TestOutputAfterAnIncompleteLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "output")
	if err := os.WriteFile(file, []byte("before=1"), 0o600); err != nil { // without a line end
		t.Fatal(err)
	}
	getenv := env(map[string]string{"GITHUB_OUTPUT": file, "GITHUB_STATE": file})
	if err := errors.Join(SetOutput(getenv, "a", "2"), SaveState(getenv, "b", "3")); err != nil {
		t.Fatal(err)
	}
	if got := readFile(t, file); got["before"] != "1" || got["a"] != "2" || got["b"] != "3" || len(got) != 3 {
		t.Errorf("got %q", got)
	}
}

func TestNothingIsSetOutsideAStep(t *testing.T) {
	for _, getenv := range []Getenv{env(nil), env(map[string]string{"GITHUB_OUTPUT": "", "GITHUB_STATE": "", "GITHUB_STEP_SUMMARY": ""})} {
		if err := errors.Join(SetOutput(getenv, "a", "1"), SaveState(getenv, "a", "1"), AppendSummary(getenv, []byte("text"))); err != nil {
			t.Error(err)
		}
	}
}

func TestUnwritableFiles(t *testing.T) {
	dir := t.TempDir() // not a file
	getenv := env(map[string]string{"GITHUB_OUTPUT": dir, "GITHUB_STATE": dir + "/no/such", "GITHUB_STEP_SUMMARY": dir})
	for name, err := range map[string]error{
		"GITHUB_OUTPUT":       SetOutput(getenv, "a", "1"),
		"GITHUB_STATE":        SaveState(getenv, "a", "1"),
		"GITHUB_STEP_SUMMARY": AppendSummary(getenv, []byte("text")),
	} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

func TestRefusedOutputs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "output")
	getenv := env(map[string]string{"GITHUB_OUTPUT": file})
	for _, tc := range []struct{ name, value, want string }{
		{"", "1", "cannot be the name"},
		{"a=b", "1", "cannot be the name"},
		{"a<<b", "1", "cannot be the name"},
		{"a\nb", "1", "cannot be the name"},
		{"a b", "1", "cannot be the name"},
		{"1a", "1", "cannot be the name"},
		{"a", "\xff", "not UTF-8"},
		{"a", strings.Repeat("x", maxOutput/2+1), "artifact"},
		{"a", strings.Repeat("😀", maxOutput/4+1), "artifact"}, // two units of UTF-16 each
	} {
		if err := SetOutput(getenv, tc.name, tc.value); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: the error is %v, want %q", tc.name, err, tc.want)
		}
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was written: %v", err)
	}
	if err := SetOutput(getenv, "a", strings.Repeat("x", maxOutput/2)); err != nil {
		t.Errorf("the largest value: %v", err)
	}
}

func TestSummaryStaysBelowTheLimit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "summary")
	getenv := env(map[string]string{"GITHUB_STEP_SUMMARY": file})
	if got := SummarySpace(getenv); got != aimSummary {
		t.Errorf("an empty summary has space for %d", got)
	}
	if err := errors.Join(AppendSummary(getenv, []byte("# one\n\n\n")), AppendSummary(getenv, []byte("| two |")), AppendSummary(getenv, []byte(" \n"))); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "# one\n\n| two |\n" {
		t.Fatalf("the summary is %q, %v", got, err)
	}
	room := SummarySpace(getenv)
	if err := AppendSummary(getenv, bytes.Repeat([]byte("x"), room)); err != nil {
		t.Fatal(err)
	}
	if got := SummarySpace(getenv); got != 0 {
		t.Errorf("a full summary has space for %d", got)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	left := int(maxSummary - info.Size() - 2) // the separator and the end
	if err := AppendSummary(getenv, bytes.Repeat([]byte("y"), left+1)); !errors.Is(err, ErrSummaryFull) {
		t.Errorf("the error is %v", err)
	}
	if after, err := os.Stat(file); err != nil || after.Size() != info.Size() {
		t.Errorf("it has %d bytes, %v, want %d", after.Size(), err, info.Size())
	}
	if err := AppendSummary(getenv, bytes.Repeat([]byte("y"), left)); err != nil {
		t.Errorf("text that just fits: %v", err)
	}
	if after, err := os.Stat(file); err != nil || after.Size() != maxSummary {
		t.Errorf("it has %d bytes, %v, want %d", after.Size(), err, maxSummary)
	}
}

func TestAppendSummaryDoesNotChangeItsArgument(t *testing.T) {
	backing := []byte("text|behind")
	if err := AppendSummary(env(map[string]string{"GITHUB_STEP_SUMMARY": filepath.Join(t.TempDir(), "s")}), backing[:4]); err != nil {
		t.Fatal(err)
	}
	if string(backing) != "text|behind" {
		t.Errorf("it became %q", backing)
	}
}

func FuzzSetOutput(f *testing.F) {
	f.Add("value")
	f.Add("a\nrollout_00<<x\n=\r\n")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, value string) {
		file := filepath.Join(dir, "output")
		defer os.Remove(file)
		getenv := env(map[string]string{"GITHUB_OUTPUT": file})
		if err := SetOutput(getenv, "a", value); err != nil {
			return // not UTF-8
		}
		got := readFile(t, file)
		// The runner removes a two-character line break before the delimiter.
		if len(got) != 1 || strings.TrimSuffix(got["a"], "\r") != strings.TrimSuffix(value, "\r") {
			t.Errorf("%q came back as %q", value, got)
		}
	})
}
