package harborfiles

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/org/rollout-action/internal/core/task/taskdir"
)

// TestCopiedIsHarbors compares with the files that Harbor 0.26 copies for the same tasks.
func TestCopiedIsHarbors(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		want  string
	}{
		"all without rules": {nil, "tests/test.sh"},
		"files of both directories": {map[string]string{
			"tests/.harborignore": "*.log\n!keep.log\nout/\n", "tests/a.log": "1", "tests/keep.log": "2", "tests/b/a.log": "3", "tests/b/c": "4", "tests/out/x": "5",
			"solution/a.log": "6", "solution/.harborignore": "/notes\n", "solution/notes/n": "7", "solution/b/notes": "8", "solution/b/.harborignore": "", "environment/a.log": "9",
		}, "tests/b/c tests/keep.log tests/test.sh solution/a.log solution/b/notes"},
		"a deeper file": {map[string]string{
			"tests/.harborignore": "*.log\n", "tests/data/.harborignore": "!a.log\n", "tests/data/a.log": "1", "tests/data/b.log": "2",
		}, "tests/data/a.log tests/test.sh"},
		"links": {map[string]string{
			"tests/.harborignore": "secret\ndata/x\n", "tests/secret": "1", "tests/link@": "secret", "tests/data/x": "2", "tests/data/y": "3", "tests/again@": "data", "tests/far@": "../instruction.md",
		}, "tests/again/y tests/data/y tests/far tests/test.sh"},
		"a step": {map[string]string{
			"steps/one/tests/.harborignore": "data\n", "steps/one/tests/data/x": "1", "steps/one/tests/test.sh": "t", "steps/one/solution/data": "2", "steps/one/solution/.harborignore": "da?a\n", "steps/one/solution/solve.sh": "s",
		}, "tests/test.sh steps/one/tests/test.sh steps/one/solution/solve.sh"},
		"rules in other places": {map[string]string{
			".harborignore": "*\n", "steps/.harborignore": "*\n", "steps/one/.harborignore": "*\n", "steps/one/tests/x": "1",
		}, "tests/test.sh steps/one/tests/x"},
	} {
		t.Run(name, func(t *testing.T) {
			files := Copied(tree(t, tc.files))
			var got []string
			for _, dir := range []string{"tests", "solution", "steps/one/tests", "steps/one/solution"} {
				if !taskdir.IsDir(files, dir) {
					continue
				}
				below, err := fs.Sub(files, dir)
				if err != nil {
					t.Fatal(err)
				}
				var names []string
				if err := fs.WalkDir(taskdir.Follow(below), ".", func(name string, e fs.DirEntry, err error) error {
					if err == nil && !e.IsDir() {
						names = append(names, name)
						got = append(got, dir+"/"+name)
					}
					return err
				}); err != nil {
					t.Fatal(err)
				}
				if err := fstest.TestFS(taskdir.Follow(below), names...); err != nil {
					t.Error(err)
				}
			}
			if got := strings.Join(got, " "); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestExcludedFilesCannotBeOpened(t *testing.T) {
	files := Copied(tree(t, map[string]string{"tests/.harborignore": "out/\n", "tests/out/x": "1", "tests/link@": "out/x"}))
	for _, name := range []string{"tests/.harborignore", "tests/out", "tests/out/x", "tests/link"} {
		if _, err := files.Open(name); !errors.Is(err, ErrExcluded) || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("open %s: %v", name, err)
		}
		if _, err := fs.Lstat(files, name); !errors.Is(err, ErrExcluded) {
			t.Errorf("lstat %s: %v", name, err)
		}
	}
	if _, err := files.Open("tests/none"); errors.Is(err, ErrExcluded) || !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := fs.ReadDir(Copied(tree(t, map[string]string{"tests/.harborignore": "[a\n"})), "tests"); !errors.Is(err, ErrUnknown) {
		t.Errorf("a pattern without a fixed meaning: %v", err)
	}
}
