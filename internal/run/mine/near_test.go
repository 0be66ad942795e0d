package mine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/run/mine"
)

// Tests that a commit leaves alone, near its code or its tests, count: an agent whose solution
// breaks them gets 0, also if it changes them.
func TestTestsNearTheChangeHaveToPass(t *testing.T) {
	const (
		unit = "import unittest, calc\n\n\nclass %[1]s(unittest.TestCase):\n    def test_%[1]s(self):\n        self.assertEqual(3, calc.%[1]s())\n"
		node = "const test = require('node:test')\ntest('%[1]s', () => require('node:assert').equal(require('../calc.js').%[1]s(), 3))\n"
		gone = "package part\n\nimport \"testing\"\n\nfunc Test%[1]s(t *testing.T) {\n\tif %[1]s() != 3 {\n\t\tt.Fail()\n\t}\n}\n"
	)
	for _, tc := range []struct {
		program       string
		before, after []string
		near          string   // the names
		bad           []string // files of a solution that breaks the tests near the change, and changes them
	}{
		{
			"go",
			[]string{"go.mod", goMod, "part/old.go", "package part\n\nfunc Old() int { return 3 }\n", "part/old_test.go", fmt.Sprintf(gone, "Old"), "far/far_test.go", "package far\n"},
			[]string{"part/new.go", "package part\n\nfunc New() int { return 3 }\n", "calc_test.go", "package calc\n\nimport (\n\t\"testing\"\n\n\t\"example.com/calc/part\"\n)\n\nfunc TestNew(t *testing.T) { _ = part.New() }\n"},
			"example.com/calc/part TestOld",
			[]string{"part/old.go", "package part\n\nfunc Old() int { return 4 }\n", "part/old_test.go", strings.Replace(fmt.Sprintf(gone, "Old"), "3", "4", 1)},
		},
		{
			"python3",
			[]string{"setup.cfg", "", "calc.py", "def old():\n    return 3\n", "tests/__init__.py", "", "tests/test_old.py", fmt.Sprintf(unit, "old"), "tests/test_fails.py", fmt.Sprintf(unit, "fails"), "far/test_far.py", ""},
			[]string{"calc.py", "def old():\n    return 3\n\n\ndef new():\n    return 3\n", "tests/test_new.py", fmt.Sprintf(unit, "new")},
			"test_old",
			[]string{"calc.py", "def old():\n    return 4\n\n\ndef new():\n    return 3\n", "tests/test_old.py", ""},
		},
		{
			"node",
			[]string{"package.json", "{}", "calc.js", "exports.old = () => 3\n", "test/old.js", fmt.Sprintf(node, "old"), "part/package.json", "{}", "part/test/far.js", ""},
			[]string{"calc.js", "exports.old = () => 3\nexports.new_ = () => 3\n", "test/new.js", fmt.Sprintf(node, "new_")},
			"test/old.js: old",
			[]string{"calc.js", "exports.old = () => 4\nexports.new_ = () => 3\n", "test/old.js", ""},
		},
		{
			"bash",
			[]string{"lib/old.sh", "echo 3\n", "lib/old_test.sh", "[ \"$(bash lib/old.sh)\" = 3 ]\n", "far/far_test.sh", ""},
			[]string{"lib/new.sh", "echo 3\n", "t/new_test.sh", "[ \"$(bash lib/new.sh)\" = 3 ]\n"},
			"lib/old_test.sh",
			[]string{"lib/old.sh", "echo 4\n", "lib/old_test.sh", ""},
		},
	} {
		t.Run(tc.program, func(t *testing.T) {
			t.Parallel()
			needs(t, tc.program)
			r := newRepo(t)
			r.commit("begin", tc.before...)
			r.commit("change", tc.after...)
			l, candidates := r.look(mine.Options{})
			dir := filepath.Join(r.write(l, candidates, mine.WriteOptions{}), candidates[0].Task)
			_, before, nearBefore := trial(t, dir, false)
			_, after, nearAfter := trial(t, dir, true)
			names, near := candidates[0].Names(before, after), candidates[0].NearNames(nearBefore, nearAfter)
			if got := short(strings.Join(near, "\n")); got != tc.near || candidates[0].Reason != mine.Promising {
				t.Fatalf("near the change is %q, want %q; %s %s", got, tc.near, candidates[0].Reason, candidates[0].Detail)
			}
			if err := mine.SetNames(&candidates[0], dir, names, near); err != nil {
				t.Fatal(err)
			}
			if reward, _, _ := trial(t, dir, true); reward != "1" {
				t.Errorf("the reward with the change is %s", reward)
			}
			for i := 0; i < len(tc.bad); i += 2 {
				path := filepath.Join(dir, "solution/_files", tc.bad[i])
				must(t, os.MkdirAll(filepath.Dir(path), 0o755))
				must(t, os.WriteFile(path, []byte(tc.bad[i+1]), 0o644))
			}
			if reward, _, _ := trial(t, dir, true); reward != "0" {
				t.Errorf("the reward of a solution that breaks the test near it is %s", reward)
			}
		})
	}
}

// What passes near a change without it and fails with it drops the candidate; what fails before
// does not.
func TestNearNames(t *testing.T) {
	for _, tc := range []struct {
		before, after string
		reason        mine.Reason
		names         string // or the detail of the reason
	}{
		{"", "", mine.Promising, ""},
		{"a\n", "a\nb\n", mine.Promising, "a"},
		{"a\nb\n", "b\n", mine.BreaksTests, "1 of 2 near the change"},
	} {
		c := mine.Candidate{Reason: mine.Promising}
		names := strings.Join(c.NearNames(tc.before, tc.after), " ")
		if c.Reason != mine.Promising {
			names = c.Detail
		}
		if c.Reason != tc.reason || names != tc.names {
			t.Errorf("%q, %q: %s %q, want %s %q", tc.before, tc.after, c.Reason, names, tc.reason, tc.names)
		}
	}
}

// At most so many targets near a change run, the first ones by their names.
func TestTargetsNearAChangeAreBounded(t *testing.T) {
	r := newRepo(t)
	files := []string{"lib/x.sh", "echo 1\n"}
	for i := range 3 * mine.MaxNear {
		files = append(files, fmt.Sprintf("lib/%02d_test.sh", i), "exit 0\n")
	}
	r.commit("begin", files...)
	r.commit("change", "lib/x.sh", "echo 2\n", "lib/x_test.sh", "exit 0\n")
	l, candidates := r.look(mine.Options{})
	text, err := os.ReadFile(filepath.Join(r.write(l, candidates, mine.WriteOptions{}), candidates[0].Task, "tests/near.txt"))
	if got := strings.Count(string(text), "\n"); err != nil || got != mine.MaxNear || !strings.HasPrefix(string(text), "lib/00_test.sh\n") {
		t.Errorf("%d targets, %v: %s", got, err, text)
	}
}
