package harborfiles

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
		"a file of the tests": {map[string]string{
			"tests/.harborignore": "*.log\n!keep.log\n", "tests/a.log": "1", "tests/keep.log": "2", "tests/b/a.log": "3", "solution/a.log": "4",
		}, "75304ba86b5b7f89e875412c51910258827613ee67373816d9ef2adf5c93dc3e"},
		"a file in each directory, the deeper one decides": {map[string]string{
			"tests/.harborignore": "*.log\n/out/\n", "tests/data/.harborignore": "!a.log\n", "tests/data/a.log": "1", "tests/data/b.log": "2", "tests/out/.harborignore": "!x\n", "tests/out/x": "3",
		}, "a4b7ee91d4679813a7d7d4ed3ebec21115ce32d0d5696565bd8b24c765e02054"},
		"a path decides before a directory": {map[string]string{
			"solution/.harborignore": "!/out/x\nout/\nx/**\n", "solution/out/x": "1", "solution/out/y": "2", "solution/x/z": "3",
		}, "017ddb86738f222d0f811d75cbc114fde440e7292a4c4add8dfa64065d795a28"},
		"a step": {map[string]string{
			"steps/one/tests/.harborignore": "data\n", "steps/one/tests/data/x": "1", "steps/one/solution/data": "2", "steps/one/solution/.harborignore": "da?a\n", "steps/one/instruction.md": "3",
		}, "cc3614c443b535a889ff4e2c9d1f1f44fa0228cc0ef53537edd71033ecb533ef"},
		"elsewhere, where it only leaves itself out": {map[string]string{
			".harborignore": "*\n", "environment/.harborignore": "*\n", "environment/Dockerfile": "FROM x\n", "steps/.harborignore": "*\n", "steps/one/.harborignore": "*\n", "steps/one/x": "1", "tests/test.sh": "echo 1\n",
		}, "bbdc9d0defc82c1daad0462fd8494bbaffcaa48fe7fcb5df1a1cf02124b53919"},
		"everything, and lines of another system": {map[string]string{
			"tests/.harborignore": "*\r\n# a comment\r\n\r\n!/b\v!/c  \r\n", "tests/b": "1", "tests/c": "2", "tests/d": "3",
		}, "71f3c7b696640453376e258c66d31c3282d650a378f53c7263b626f3d3a229fb"},
		"links, whose targets count": {map[string]string{
			"tests/.harborignore": "secret\n", "tests/secret": "1", "tests/link@": "secret", "environment/link@": "../tests/secret", "environment/far@": "near", "environment/near@": "../tests/../tests/secret", "environment/ignore@": "../tests/.harborignore", "environment/good@": "../tests/test.sh",
		}, "62108e1a357b5f004eb5bb083705abb80309ef65b84ae676af5f78c6a2b04625"},
		"a link to a directory that counts": {map[string]string{
			"solution/.harborignore": "b\n", "solution/b": "1", "solution/c": "2", "steps@": "solution",
		}, "cc6e73df56792dcbbd6d4a1e15b25affec566e0c150730a8b94163c6c0cb4073"},
		"the file of patterns is a link": {map[string]string{
			"tests/.harborignore@": "rules", "tests/rules": "x\n", "tests/x": "1",
		}, "c8391596245eaea5f4c20faf563950de2fe6a80e485b8bbe1a668732ba6ccae4"},
		"escapes, sets and letters": {map[string]string{
			"tests/.harborignore": "\\!a\n\\#b\n[x-z]\n[!a-z].c\n\\[q\\]\né?\ns\\ \n", "tests/!a": "1", "tests/#b": "2", "tests/y": "3", "tests/A.c": "4", "tests/a.c": "5", "tests/[q]": "6", "tests/éé": "7", "tests/s ": "8",
		}, "b7f537e177a1fc53dab6d86ac0127feaa4f26f902af62e4822e24b3e87340a3c"},
		"both kinds of files": {map[string]string{
			".gitignore": "tests/a\n!tests/c\n", "tests/.harborignore": "!a\nc\n", "tests/a": "1", "tests/b": "2", "tests/c": "3",
		}, "64f76e88563868f6e22fafe0068f34405fdc65d75f7ca26ca471a4a1663efa40"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := Digest(t.Context(), tree(t, tc.files)); err != nil || got != "sha256:"+tc.want {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
}

// A hostile task can have so many files and patterns that comparing them takes hours.
func TestComparisonsAreLimited(t *testing.T) {
	dir := tree(t, map[string]string{"tests/.harborignore": "a\nb\nc\n", "tests/x": "", "tests/y": "", "tests/z": ""})
	own := newRules(dir)
	own.left = 7
	for _, name := range []string{"tests/x", "tests/y"} {
		if excluded, err := own.excluded(name, false); excluded || err != nil {
			t.Errorf("%s: %t, %v", name, excluded, err)
		}
	}
	if _, err := own.excluded("tests/z", false); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
}

func TestDigestsThatAreNotKnown(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"a large .gitignore":                          {".gitignore": strings.Repeat("#", maxIgnore+1)},
		"many patterns":                               {".gitignore": strings.Repeat("a\n", maxPatterns+1)},
		"an invalid pattern":                          {".gitignore": "a\\\n"},
		"a file of Harbor's that is a directory":      {"tests/.harborignore/x": ""},
		"one that is a link to nowhere":               {"tests/.harborignore@": "gone"},
		"one that is not UTF-8":                       {"tests/.harborignore": "\xff\n"},
		"one with a space at the beginning of a line": {"tests/.harborignore": " a\n"},
		"one with a bracket that does not end":        {"tests/.harborignore": "[a\n"},
		"a name with a line break":                    {"tests/a\nb": ""},
		"a pattern of a slash":                        {".gitignore": "/\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := Digest(t.Context(), tree(t, files)); !errors.Is(err, ErrUnknown) || got != "" {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
	t.Run("a link out of the task", func(t *testing.T) {
		outside := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(outside, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := Digest(t.Context(), tree(t, map[string]string{"environment/x@": outside})); err == nil || errors.Is(err, ErrUnknown) {
			t.Errorf("%s, %v", got, err)
		}
	})
	t.Run("after a cancellation", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Digest(ctx, tree(t)); !errors.Is(err, context.Canceled) {
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
			r, err := parse(ignoreFile, pattern, asDocumented)
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range strings.Fields(files.ignored) {
				if ignored, _ := r.match(file); !ignored {
					t.Errorf("%s counts", file)
				}
			}
			for _, file := range strings.Fields(files.kept) {
				if ignored, _ := r.match(file); ignored {
					t.Errorf("%s does not count", file)
				}
			}
		})
	}
}
