package prove_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/prove"
)

// old is a task of terminal-bench before version 2, in place of the good task.
var old = map[string]string{
	"task.toml": "", "instruction.md": "", "environment/Dockerfile": "", "solution/solve.sh": "", "tests/test.sh": "",
	"task.yaml":             "instruction: Write a greeting to /app/hello.\n",
	"docker-compose.yaml":   "services:\n  client:\n    build: .\n    command: sleep infinity\n",
	"Dockerfile":            "FROM debian:bookworm\nWORKDIR /app\nCOPY data/ ./\n",
	"data/x":                "x",
	"run-tests.sh":          "pytest $TEST_DIR/test_outputs.py -rA\n",
	"tests/test_outputs.py": "def test_hello():\n    assert open('/app/hello').read() == 'hello\\n'\n",
	"solution.sh":           "echo hello > /app/hello\n",
}

func TestTasksOfTerminalBenchHaveTheSameRules(t *testing.T) {
	for _, tc := range []struct {
		name    string
		changes map[string]string
		want    []string // the findings
	}{
		{"a sound task", nil, nil},
		{"a missing source", map[string]string{"Dockerfile": "FROM debian:bookworm\nWORKDIR /app\nCOPY none ./\n"}, []string{"Dockerfile:3 copy-source: the build needs none, which does not exist"}},
		{"a context below", map[string]string{
			"docker-compose.yaml": "services:\n  a:\n    build: env\n", "Dockerfile": "", "env/Dockerfile": "FROM debian:bookworm\nCOPY data ./\n",
		}, []string{
			"env/Dockerfile:2 copy-source: the build needs env/data, which does not exist",
			"env/Dockerfile:1 workdir: there is no WORKDIR, so the agent begins in /, among files that do not belong to the task",
		}},
		{"scripts in the image", map[string]string{"Dockerfile": "FROM debian:bookworm\nWORKDIR /app\nCOPY . ./\n", "solution.sh": strings.Repeat("echo hello > /app/hello\n", 2)}, []string{
			"Dockerfile:3 solution-in-image: the image keeps solution.sh: agents may find the solution",
			"Dockerfile:3 tests-in-image: the image keeps run-tests.sh: agents may find the tests",
			"Dockerfile:3 tests-in-image: the image keeps tests/test_outputs.py: agents may find the tests",
		}},
		{"the tests need the network", map[string]string{"run-tests.sh": "apt-get update\npytest -rA\n"}, []string{"run-tests.sh:1 verifier-network: the verifier needs the network: it runs apt-get update"}},
		{"line ends of Windows", map[string]string{"solution.sh": "echo hello\r\n"}, []string{"solution.sh:1 crlf: the script has Windows line ends (CRLF), which its shell takes for a part of each command"}},
		{"a long timeout", map[string]string{"task.yaml": "instruction: x\nmax_agent_timeout_sec: 100000\n"}, []string{"task.yaml:0 long-timeout: max_agent_timeout_sec is 100000 seconds, which is more than a day"}},
		{"an instruction that names the tests", map[string]string{"task.yaml": "instruction: |\n  Run /tests/test_outputs.py first.\n"}, []string{"task.yaml:2 instruction-leak: the instruction names /tests/test_outputs.py, which is not there while the agent works"}},
		{"a problem with a place", map[string]string{"docker-compose.yaml": "services:\n  a:\n    build: .\n    privileged: true\n"}, []string{`docker-compose.yaml:4 task-format: "services.a.privileged": a privileged container controls the whole machine`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			files := maps.Clone(old)
			maps.Copy(files, tc.changes)
			var got []string
			for _, f := range prove.Lint(load(t, files)) {
				got = append(got, fmt.Sprintf("%s:%d %s: %s", f.File, f.Line, f.Rule, f.Message))
			}
			if strings.Join(got, "\n") != strings.Join(tc.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
		})
	}
}

// Runs of such a task are judged by its parser, whatever the exit code.
func TestRunsOfTasksOfTerminalBench(t *testing.T) {
	files := maps.Clone(old)
	files["solution.sh"] = ""
	unread := &result.Error{Type: result.VerifierRewardMissing, Message: "the parser pytest finds no result"}
	_, found := prove.CheckRuns(load(t, files), prove.Runs{
		Oracle: []result.Trial{{TaskFormat: "terminal-bench", Reward: new(1.0), VerifierExitCode: new(1)}},
		Nop:    []result.Trial{{TaskFormat: "terminal-bench", Error: unread, VerifierExitCode: new(0)}},
	})
	var got []string
	for _, f := range found {
		got = append(got, f.File+" "+f.Rule+": "+f.Message)
	}
	text := strings.Join(got, "\n")
	for _, want := range []string{
		"run-tests.sh reward-missing: after doing nothing: the parser pytest finds no result",
		"task.yaml no-solution: there is no solution.sh, so nothing shows that the task can be solved",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("got\n%s\nwant %s", text, want)
		}
	}
	if strings.Contains(text, "exit-code") || strings.Contains(text, "test.sh") && !strings.Contains(text, "run-tests.sh") {
		t.Errorf("got\n%s", text)
	}
}
