package mine_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/run/mine"
	"github.com/org/rollout-action/internal/test/testenv"
)

// trial runs a task on this machine: its paths become directories of dir. It returns the reward and
// the names of the tests that passed, and of those near the change.
func trial(t *testing.T, task string, solve bool) (reward, passed, near string) {
	t.Helper()
	dir := t.TempDir()
	paths := map[string]string{"/app": filepath.Join(dir, "app"), "/tests": filepath.Join(dir, "tests"), "/oracle": filepath.Join(dir, "oracle"), "/logs": filepath.Join(dir, "logs")}
	var pairs []string
	for from, to := range paths {
		pairs = append(pairs, from, to)
	}
	if err := os.MkdirAll(filepath.Join(dir, "logs/verifier"), 0o755); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"environment/repo": "/app", "tests": "/tests", "solution": "/oracle"} {
		if err := os.CopyFS(paths[to], os.DirFS(filepath.Join(task, from))); err != nil {
			t.Fatal(err)
		}
	}
	bash := func(script string) {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(script, []byte(strings.NewReplacer(pairs...).Replace(string(text))), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(script, "run.sh") {
			return
		}
		cmd := exec.CommandContext(t.Context(), "bash", script)
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(paths["/app"], "bin")+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
	}
	if solve {
		bash(filepath.Join(paths["/oracle"], "solve.sh"))
	}
	bash(filepath.Join(paths["/tests"], "run.sh"))
	bash(filepath.Join(paths["/tests"], "test.sh"))
	var texts [3]string
	for i, name := range []string{"reward.txt", "passed.txt", "near.txt"} {
		text, err := os.ReadFile(filepath.Join(dir, "logs/verifier", name))
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = strings.TrimSpace(string(text))
	}
	return texts[0], texts[1], texts[2]
}

// In each language the runner tells the names of the tests, and the task gives 1 for the change
// alone.
func TestTasksTellTheChange(t *testing.T) {
	for _, tc := range []struct {
		name, program string
		before, after []string
		without, with string // the names
	}{
		{
			"go", "go", []string{"go.mod", goMod, "calc.go", goCode, "calc_test.go", goTest},
			[]string{
				"calc.go", strings.Replace(goCode, "a + b", "a + b + 0", 1) + "\nfunc Two() int { return 2 }\n",
				"calc_test.go", goTest + "\nfunc TestTwo(t *testing.T) {\n\tt.Run(\"is \\\"2\\\"\", func(t *testing.T) {\n\t\tif Two() != 2 {\n\t\t\tt.Fail()\n\t\t}\n\t})\n}\n\nfunc TestSkipped(t *testing.T) { t.Skip() }\n",
			},
			"", "example.com/calc TestAdd\nexample.com/calc TestTwo\nexample.com/calc TestTwo/is_\\\"2\\\"",
		},
		{
			"python", "python3", []string{"calc.py", "def add(a, b):\n    return a\n", "tests/old.txt", "x"},
			[]string{
				"calc.py", "def add(a, b):\n    return a + b\n",
				"tests/test_calc.py", "import unittest\nimport calc\n\n\nclass Calc(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(3, calc.add(1, 2))\n\n    def test_zero(self):\n        self.assertEqual(1, calc.add(1, 0))\n\n    @unittest.skip('never')\n    def test_skipped(self):\n        pass\n",
			},
			"test_zero", "test_add\ntest_zero",
		},
		{
			"javascript", "node", []string{"package.json", `{"name": "calc"}`, "calc.js", "exports.add = (a, b) => a\n"},
			[]string{
				"calc.js", "exports.add = (a, b) => a + b\n",
				"calc.test.js", "const test = require('node:test')\nconst assert = require('node:assert')\nconst { add } = require('./calc.js')\ntest('adds', () => assert.equal(add(1, 2), 3))\ntest('adds nothing', () => assert.equal(add(1, 0), 1))\ntest('skipped', { skip: true }, () => {})\nconsole.log('ok 7 - made up')\n",
			},
			"calc.test.js: adds nothing", "calc.test.js: adds\ncalc.test.js: adds nothing",
		},
		{
			"shell", "bash", []string{"add.sh", "echo $1\n", "add_test.sh", "exit 1\n"},
			[]string{"add.sh", "echo $(($1 + $2))\n", "add_test.sh", "[ \"$(bash add.sh 1 2)\" = 3 ]\n", "zero_test.sh", "[ \"$(bash add.sh 1 0)\" = 1 ]\n"},
			"zero_test.sh", "add_test.sh\nzero_test.sh",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			needs(t, tc.program)
			tells(t, tc.before, tc.after, tc.without, tc.with)
		})
	}
}

func needs(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		requirement := "docker"
		if program == "cargo" || program == "make" {
			requirement = program
		}
		testenv.Lacks(t, requirement, program+": "+err.Error())
	}
}

// tells makes a repository of two commits and checks which tests pass without the second one and
// with it, and that its task gives 1 for the change alone.
func tells(t *testing.T, before, after []string, wantWithout, wantWith string) {
	t.Helper()
	r := newRepo(t)
	r.commit("begin", before...)
	r.commit("change", after...)
	l, candidates := r.look(mine.Options{})
	dir := filepath.Join(r.write(l, candidates, mine.WriteOptions{}), candidates[0].Task)
	if candidates[0].Reason != mine.Promising {
		t.Fatalf("%s: %s", candidates[0].Reason, candidates[0].Detail)
	}
	reward, without, nearWithout := trial(t, dir, false)
	if reward != "0" || short(without) != wantWithout {
		t.Errorf("without the change, reward %s, passed %q; want %q", reward, without, wantWithout)
	}
	reward, with, nearWith := trial(t, dir, true)
	if reward != "0" || short(with) != wantWith {
		t.Errorf("with the change, reward %s, passed %q; want %q", reward, with, wantWith)
	}
	names := candidates[0].Names(without, with)
	if candidates[0].Reason != mine.Promising || strings.Join(names, "\n") != with {
		t.Fatalf("%s, names %q", candidates[0].Reason, names)
	}
	if err := mine.SetNames(&candidates[0], dir, names, candidates[0].NearNames(nearWithout, nearWith)); err != nil {
		t.Fatal(err)
	}
	if reward, _, _ := trial(t, dir, false); reward != "0" {
		t.Errorf("the reward without the change is %s", reward)
	}
	if reward, _, _ := trial(t, dir, true); reward != "1" {
		t.Errorf("the reward with the change is %s", reward)
	}
}

// short returns names without where they are in Python, which pytest and unittest write
// differently.
func short(names string) string {
	var out []string
	for line := range strings.Lines(names) {
		line = strings.TrimSpace(line)
		if at := strings.LastIndexAny(line, ".:"); strings.HasPrefix(line, "tests") && at >= 0 {
			line = line[at+1:]
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

func TestNames(t *testing.T) {
	for _, tc := range []struct {
		before, after string
		reason        mine.Reason
		names         string // or the detail of the reason
	}{
		{"a\n", "a\nb\n", mine.Promising, "a b"},
		{"", "b\na\nb\n", mine.Promising, "a b"},
		{"a\n", "", mine.FailsAfter, "no test passes after the change"},
		{"", "", mine.FailsAfter, "no test passes after the change"},
		{"a\nb\n", "b\nc\n", mine.BreaksTests, "1 of 2"},
		{"a\nb\n", "a\nb\n", mine.NoNewTest, "all 2 pass without the change"},
		{"a\n", "a\n", mine.NoNewTest, "the only test passes without the change"},
		{"", "a\x1b[31m\nb\xff\nc\u202e\nd\r\n" + strings.Repeat("e", 5000) + "\nf\n", mine.Promising, "f"},
		{"", strings.Repeat("a", 10) + strings.Repeat("\nx", 10), mine.Promising, "aaaaaaaaaa x"},
	} {
		c := mine.Candidate{Reason: mine.Promising}
		names := c.Names(tc.before, tc.after)
		if c.Reason != tc.reason || strings.Join(names, " ")+c.Detail != tc.names {
			t.Errorf("%q, %q: %s %q %s, want %s %q", tc.before, tc.after, c.Reason, names, c.Detail, tc.reason, tc.names)
		}
	}
}
