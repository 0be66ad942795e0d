package hubdigest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/task/taskdir"
)

// tree writes files, and links whose names end with @, and returns their directory.
func tree(t *testing.T, files ...map[string]string) taskdir.Dir {
	t.Helper()
	dir := t.TempDir()
	for _, some := range append([]map[string]string{{"task.toml": "version = \"1.0\"\n", "instruction.md": "Do it.\n", "tests/test.sh": "echo 1\n"}}, files...) {
		for name, text := range some {
			name, link := strings.CutSuffix(filepath.Join(dir, name), "@")
			err := os.MkdirAll(filepath.Dir(name), 0o755)
			if link {
				err = errors.Join(err, os.Symlink(text, name))
			} else {
				err = errors.Join(err, os.WriteFile(name, []byte(text), 0o644))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return taskdir.Dir(dir)
}

// TestDigestIsHarbors compares with what Harbor 0.26 computes for the same files.
func TestDigestIsHarbors(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		want  string
	}{
		"the files of every task": {nil, "017ddb86738f222d0f811d75cbc114fde440e7292a4c4add8dfa64065d795a28"},
		"all that counts, and files that do not": {map[string]string{
			"README.md": "r\n", "trajectory.json": "{}", "LICENSE": "x", "data/x": "x", "environment/Dockerfile": "FROM x\n",
			"solution/solve.sh": "s\n", "steps/one/tests/test.sh": "t\n", "tests/é": "e", "tests/Z": "z", "tests/a.pyc": "p",
			"tests/__pycache__/b": "p", "tests/b~": "p", "environment/.gitignore": "*\n",
		}, "bec947b48632c2d628f2eec3e9520a39da0c68c3f3effb9a0bcacf4e9652ede8"},
		"a .gitignore of the task": {map[string]string{
			".gitignore": "# c\r\n*.log\r\n!keep.log\r\n/tests/tmp/\r\n", "tests/a.log": "1", "tests/keep.log": "2", "tests/tmp/x": "3", "tests/a.pyc": "4",
		}, "918843ce3c735c16d0b9b84e847f24c7f4eea39f3136ec1d1805d8714311e854"},
		"links": {map[string]string{
			"environment/real": "r\n", "tests/link@": "../environment/real", "tests/dir@": "../environment", "tests/gone@": "nowhere",
		}, "b96d4fe00a1924e0a03f85c227cbe60302eade98ed1d7681361c8ddb3164ae8e"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := Of(t.Context(), tree(t, tc.files)); err != nil || got != "sha256:"+tc.want {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
}

func TestDigestsThatAreNotKnown(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"Harbor's own rules":   {"tests/.harborignore": "x\n"},
		"a large .gitignore":   {".gitignore": strings.Repeat("#", maxIgnore+1)},
		"many patterns":        {".gitignore": strings.Repeat("a\n", maxPatterns+1)},
		"an invalid pattern":   {".gitignore": "a\\\n"},
		"a pattern of a slash": {".gitignore": "/\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := Of(t.Context(), tree(t, files)); !errors.Is(err, ErrUnknown) || got != "" {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
	t.Run("a link out of the task", func(t *testing.T) {
		outside := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(outside, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := Of(t.Context(), tree(t, map[string]string{"environment/x@": outside})); err == nil || errors.Is(err, ErrUnknown) {
			t.Errorf("%s, %v", got, err)
		}
	})
	t.Run("after a cancellation", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Of(ctx, tree(t)); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestPatternsMeanWhatHarborTakesThemFor compares with pathspec 1.0.
func TestPatternsMeanWhatHarborTakesThemFor(t *testing.T) {
	for pattern, files := range map[string]struct{ ignored, kept string }{
		"a":       {"a a/x b/a/x b/a tests/a b/x/y/a", "b a.pyc b/c.pyc x/y/z [x] é #c !d ab/c"},
		"a/":      {"a/x b/a/x", "a b b/a a.pyc b/c.pyc x/y/z [x] tests/a é #c !d ab/c b/x/y/a"},
		"/a":      {"a a/x", "b b/a/x b/a a.pyc b/c.pyc x/y/z [x] tests/a é #c !d ab/c b/x/y/a"},
		"a/x":     {"a/x", "a b b/a/x b/a a.pyc b/c.pyc x/y/z [x] tests/a é #c !d ab/c b/x/y/a"},
		"b/**/a":  {"b/a/x b/a b/x/y/a", "a b a/x a.pyc b/c.pyc x/y/z [x] tests/a é #c !d ab/c"},
		"**/a":    {"a a/x b/a/x b/a tests/a b/x/y/a", "b a.pyc b/c.pyc x/y/z [x] é #c !d ab/c"},
		"a/**":    {"a/x", "a b b/a/x b/a a.pyc b/c.pyc x/y/z [x] tests/a é #c !d ab/c b/x/y/a"},
		"*":       {"a b a/x b/a/x b/a a.pyc b/c.pyc x/y/z [x] tests/a é #c !d ab/c b/x/y/a", ""},
		"*/":      {"a/x b/a/x b/a b/c.pyc x/y/z tests/a ab/c b/x/y/a", "a b a.pyc [x] é #c !d"},
		"**":      {"a b a/x b/a/x b/a a.pyc b/c.pyc x/y/z [x] tests/a é #c !d ab/c b/x/y/a", ""},
		"**/":     {"a/x b/a/x b/a b/c.pyc x/y/z tests/a ab/c b/x/y/a", "a b a.pyc [x] é #c !d"},
		"*.pyc":   {"a.pyc b/c.pyc", "a b a/x b/a/x b/a x/y/z [x] tests/a é #c !d ab/c b/x/y/a"},
		"?":       {"a b a/x b/a/x b/a b/c.pyc x/y/z tests/a é ab/c b/x/y/a", "a.pyc [x] #c !d"},
		"[ab]":    {"a b a/x b/a/x b/a b/c.pyc tests/a b/x/y/a", "a.pyc x/y/z [x] é #c !d ab/c"},
		"[!a]":    {"b a/x b/a/x b/a b/c.pyc x/y/z é ab/c b/x/y/a", "a a.pyc [x] tests/a #c !d"},
		"[^a]":    {"b a/x b/a/x b/a b/c.pyc x/y/z é ab/c b/x/y/a", "a a.pyc [x] tests/a #c !d"},
		"[]a]x":   {"", "a b a/x b/a/x b/a a.pyc b/c.pyc x/y/z [x] tests/a é #c !d ab/c b/x/y/a"},
		"[":       {"", "a b a/x b/a/x b/a a.pyc b/c.pyc x/y/z [x] tests/a é #c !d ab/c b/x/y/a"},
		"\\#c":    {"#c", "a b a/x b/a/x b/a a.pyc b/c.pyc x/y/z [x] tests/a é !d ab/c b/x/y/a"},
		"\\!d":    {"!d", "a b a/x b/a/x b/a a.pyc b/c.pyc x/y/z [x] tests/a é #c ab/c b/x/y/a"},
		"a*\n!ab": {"a a/x b/a/x b/a a.pyc tests/a b/x/y/a", "b b/c.pyc x/y/z [x] é #c !d ab/c"},
		"!a":      {"", "a b a/x b/a/x b/a a.pyc b/c.pyc x/y/z [x] tests/a é #c !d ab/c b/x/y/a"},
		"# a":     {"", "a b a/x b/a/x b/a a.pyc b/c.pyc x/y/z [x] tests/a é #c !d ab/c b/x/y/a"},
		"":        {"", "a b a/x b/a/x b/a a.pyc b/c.pyc x/y/z [x] tests/a é #c !d ab/c b/x/y/a"},
		"b/*":     {"b/a b/c.pyc", "a b a/x b/a/x a.pyc x/y/z [x] tests/a é #c !d ab/c b/x/y/a"},
		"é":       {"é", "a b a/x b/a/x b/a a.pyc b/c.pyc x/y/z [x] tests/a #c !d ab/c b/x/y/a"},
	} {
		t.Run(pattern, func(t *testing.T) {
			r, err := parse(pattern)
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range strings.Fields(files.ignored) {
				if !r.match(file) {
					t.Errorf("%s counts", file)
				}
			}
			for _, file := range strings.Fields(files.kept) {
				if r.match(file) {
					t.Errorf("%s does not count", file)
				}
			}
		})
	}
}
