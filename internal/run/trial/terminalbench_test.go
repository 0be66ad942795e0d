package trial_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/result"
)

// oldTask returns the files of a task of terminal-bench before version 2. config and service are
// keys of task.yaml and of the service; more are added.
func oldTask(config, service string, more map[string]string) map[string]string {
	files := map[string]string{
		"task.toml": "-", "instruction.md": "-", "tests/test.sh": "-",
		"task.yaml":           "instruction: Write 42 to /tmp/answer.\n" + config,
		"docker-compose.yaml": "services:\n  client:\n    image: {{image}}\n" + service,
		"run-tests.sh":        ". $TEST_DIR/check.sh\nexit 1\n",
		"tests/check.sh":      "echo 'some output'\necho '=== short test summary info ==='\n[ \"$(cat /tmp/answer)\" = 42 ] && echo 'PASSED a.py::test_a' || echo 'FAILED a.py::test_a - no'\n",
		"solution.sh":         "echo 42 >/tmp/answer\n",
	}
	if service == "" {
		files["docker-compose.yaml"] += "    environment: [\"TEST_DIR=${T_BENCH_TEST_DIR}\"]\n"
	}
	maps.Copy(files, more)
	return files
}

func TestTasksOfTerminalBench(t *testing.T) {
	oracle := agent.Agent{Name: agent.Oracle}
	tell(t, []tale{
		{
			name:  "the parser's result is the reward, whatever the exit code",
			story: story{agent: oracle, files: oldTask("", "", nil)},
			want:  want{reward: "1"},
			verify: func(t *testing.T, o outcome) {
				if o.Trial.TaskFormat != "terminal-bench" {
					t.Errorf("the format is %q", o.Trial.TaskFormat)
				}
				contains(t, "the output", o.file(t, "logs/verifier/stdout.txt"), "some output", "PASSED")
			},
		},
		{
			name:  "a test that fails is the reward 0",
			story: story{agent: agent.Agent{Name: agent.Nop}, files: oldTask("", "", nil)},
			want:  want{reward: "0"},
		},
		{
			name:  "a reward file does not count",
			pure:  true,
			story: story{agent: script("true"), files: oldTask("", "", map[string]string{"run-tests.sh": reward1 + ". $TEST_DIR/check.sh\n"})},
			want:  want{reward: "0"},
		},
		{
			name:  "an output that cannot be read is an error that names the parser",
			story: story{agent: oracle, files: oldTask("", "", map[string]string{"run-tests.sh": "echo hello; exit 3\n"})},
			want: want{err: result.VerifierRewardMissing, says: []string{
				"run-tests.sh ended with exit code 3", "the parser pytest", `no "short test summary info"`, "logs/verifier/stdout.txt",
			}},
		},
		{
			name:  "another parser",
			pure:  true,
			story: story{agent: oracle, files: oldTask("parser_name: swebench\n", "", map[string]string{"run-tests.sh": "echo SWEBench results starts here; echo PASSED; echo SWEBench results ends here\n"})},
			want:  want{reward: "1"},
		},
		{
			name:  "the tests run after an agent that failed",
			story: story{agent: script("echo 42 >/tmp/answer; exit 9"), files: oldTask("", "", nil)},
			want:  want{err: result.AgentExecutionFailed, reward: "1"},
		},
		{
			name:  "the exit code of a solution does not count",
			story: story{agent: oracle, files: oldTask("", "", map[string]string{"solution.sh": "echo 42 >/tmp/answer; exit 7\n"})},
			want:  want{reward: "1"},
			verify: func(t *testing.T, o outcome) {
				contains(t, "the warnings", strings.Join(o.Trial.Warnings, "\n"), "solution.sh ended with exit code 7, which does not count")
			},
		},
		{
			name:  "tests that take too long name the key of their file",
			story: story{agent: oracle, files: oldTask("max_test_timeout_sec: 1\n", "", map[string]string{"run-tests.sh": "sleep 600\n"})},
			want:  want{err: result.VerifierTimeout, says: []string{"run-tests.sh", "max_test_timeout_sec in task.yaml"}},
		},
		{
			name: "volumes are there for the agent, and read-only ones again for the tests",
			story: story{
				agent: script("cat /tmp/task/data.txt >/tmp/answer; echo x >/tmp/task/data.txt; echo x >/tmp/safe/data.txt"),
				files: oldTask("", "    environment: [\"TEST_DIR=/tests\"]\n    volumes: [\"./data:/tmp/task\", \"./data:/tmp/safe:ro\", \"./task.yaml:/tmp/one/t.yaml\", \"./none:/tmp/none\"]\n", map[string]string{
					"data/data.txt": "42\n",
					"run-tests.sh":  "[ \"$(cat /tmp/task/data.txt /tmp/safe/data.txt)\" = $'x\\n42' ] && [ -e /tmp/one/t.yaml -a -d /tmp/none ] || echo 43 >/tmp/answer\n. /tests/check.sh\n",
				}),
			},
			want: want{reward: "1"},
		},
		{
			name: "volumes are there for tests in a fresh environment, under what is carried over",
			story: story{
				agent: script("echo 42 >/tmp/task/answer; rm /tmp/task/data.txt"),
				job: func(j *config.Job) {
					j.Verifier.Environment = config.VerifierFresh
					j.Artifacts = []string{"/tmp/task/answer"}
				},
				files: oldTask("", "    environment: [\"TEST_DIR=/tests\"]\n    volumes: [\"./data:/tmp/task\"]\n", map[string]string{
					"data/data.txt": "x\n", "run-tests.sh": "[ -e /tmp/task/data.txt ] && cp /tmp/task/answer /tmp/answer\n. /tests/check.sh\n",
				}),
			},
			want: want{reward: "1"},
		},
		{
			name:  "a task that cannot run says why",
			pure:  true,
			story: story{agent: oracle, files: oldTask("", "    privileged: true\n", nil)},
			want:  want{err: result.TaskInvalid, says: []string{`docker-compose.yaml:4:5: "services.client.privileged": a privileged container controls`}},
		},
		{
			name:  "a task without a solution is nothing for the oracle",
			pure:  true,
			story: story{agent: oracle, files: oldTask("", "", map[string]string{"solution.sh": "-"})},
			want:  want{err: result.TaskInvalid, says: []string{"puzzle/solution.sh"}},
		},
	})
}

// The scripts run as if a person typed them into a terminal. The interpreter of fake reads no such
// files.
func TestScriptsSeeWhatAShellHasRead(t *testing.T) {
	real := slices.DeleteFunc(slices.Clone(places), func(p place) bool { return p.name == "fake" })
	inPlaces(t, real, func(t *testing.T, p place) {
		o := p.run(t, story{agent: agent.Agent{Name: agent.Oracle}, files: oldTask("", "", map[string]string{
			"solution.sh":    "echo 'case $- in *i*) export ANSWER=42;; esac' >>~/.bashrc; echo to stderr >&2\n",
			"tests/check.sh": "echo '== short test summary info =='; [ \"$ANSWER\" = 42 ] && echo PASSED a::b || echo FAILED a::b\n",
		})})
		o.check(t, want{reward: "1"})
		if got := o.file(t, "command/stdout.txt") + o.file(t, "command/stderr.txt"); got != "to stderr\n" {
			t.Errorf("the solution printed %q", got)
		}
	})
}

// severalServices is a docker-compose.yaml of terminal-bench with a service that reaches the
// agent's by its name in the file.
const severalServices = `services:
  server:
    image: ${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}
    command: [bash, -c, "mkdir /www; cd /www; echo 42 >answer; echo it serves; exec python3 -m http.server 8000"]
    healthcheck: {test: [CMD, bash, -c, "getent hosts client && exec 3<>/dev/tcp/127.0.0.1/8000"], interval: 200ms, retries: 50}
    networks: [app]
  client:
    image: {{image}}
    container_name: ${T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME}
    command: [sh, -c, sleep infinity]
    environment: ["TEST_DIR=${T_BENCH_TEST_DIR}"]
    volumes:
      - ${T_BENCH_TASK_LOGS_PATH}:${T_BENCH_CONTAINER_LOGS_PATH}
      - ${T_BENCH_TASK_AGENT_LOGS_PATH}:${T_BENCH_CONTAINER_AGENT_LOGS_PATH}
      - ./tests:/given:ro
    tmpfs: [/scratch]
    networks: [app]
    depends_on: {server: {condition: service_started}}
networks: {app: {driver: bridge}}
`

func TestServicesOfTerminalBench(t *testing.T) {
	const solution = `[ -e /given/check.sh ] && grep -q ' /scratch tmpfs' /proc/mounts || exit 1
until (exec 3<>/dev/tcp/server/8000) 2>/dev/null; do sleep 0.1; done
python3 -c "import urllib.request as u; print(u.urlopen('http://server:8000/answer').read().decode(), end='')" >/tmp/answer
`
	inPlaces(t, dockerOnly, func(t *testing.T, p place) {
		o := p.run(t, story{agent: agent.Agent{Name: agent.Oracle}, files: oldTask("", "", map[string]string{"docker-compose.yaml": severalServices, "solution.sh": solution})})
		o.check(t, want{reward: "1"})
		if got := serviceLog(o, "server"); !strings.HasPrefix(got, "it serves") || !strings.Contains(got, "GET /answer") {
			t.Errorf("the log is %q", got)
		}
	})
}

func TestServicesOfTerminalBenchElsewhere(t *testing.T) {
	inPlaces(t, []place{fakePlace}, func(t *testing.T, p place) {
		o := p.run(t, story{agent: agent.Agent{Name: agent.Oracle}, files: oldTask("", "", map[string]string{"docker-compose.yaml": severalServices})})
		o.check(t, want{err: result.EnvironmentStartFailed, says: []string{"has the services server", p.name, "docker"}})
	})
}
