package terminalbench

import (
	"fmt"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/org/rollout-action/internal/lib/diag"
)

const plain = "instruction: Say hello.\ndifficulty: easy\n"

func files(config, compose string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, text := range map[string]string{ConfigFile: config, ComposeFile: compose} {
		if text != "" {
			fsys[name] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	return fsys
}

// client is a compose file with one service that is built, and more keys.
func client(keys ...string) string {
	return "services:\n  client:\n    build: .\n" + strings.Join(append([]string{""}, keys...), "    ")
}

func TestTasksAreReadAsTheyAre(t *testing.T) {
	d, problems := Read(files(`# a canary
instruction: |-
  Say hello.
author_name: A
difficulty: easy
tags: [x]
parser_name: swebench
max_agent_timeout_sec: 900.0
max_test_timeout_sec: 180
run_tests_in_same_shell: true
disable_asciinema: true
estimated_duration_sec:
`, `services:
  client:
    build:
      context: ./env
      dockerfile: Dockerfile
    image: ${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}
    container_name: ${T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME}
    command: [ "sh", "-c", "sleep infinity" ]
    working_dir: /app/
    user: agent
    tty: true
    environment:
      - TEST_DIR=${T_BENCH_TEST_DIR}
      - MORE=${OTHER:-a}=b
      - OFHOST
    volumes:
      - ${T_BENCH_TASK_LOGS_PATH}:${T_BENCH_CONTAINER_LOGS_PATH}
      - ${T_BENCH_TASK_AGENT_LOGS_PATH}:${T_BENCH_CONTAINER_AGENT_LOGS_PATH}
      - ./tests:/app/tests:ro
      - {type: bind, source: ./runs, target: /app/runs}
    deploy:
      resources:
        limits: {cpus: '1.5', memory: 2g}
`))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := Definition{
		Instruction: "Say hello.", Parser: "swebench", AgentSec: 900, TestSec: 180, SameShell: true, Metadata: d.Metadata,
		Service: Service{
			Name: "client", Context: "env", WorkDir: "/app", User: "agent", MilliCPUs: 1500, Memory: 2 << 30,
			Env:    []Variable{{"TEST_DIR", "/tests", 13, 9}, {"MORE", "${OTHER:-a}=b", 14, 9}, {"OFHOST", "${OFHOST:-}", 15, 9}},
			Mounts: []Mount{{"tests", "/app/tests", true}, {"runs", "/app/runs", false}},
		},
	}
	if !reflect.DeepEqual(d, want) {
		t.Errorf("got  %+v\nwant %+v", d, want)
	}
	if d.Metadata["author_name"] != "A" || d.Metadata["instruction"] != nil {
		t.Errorf("the metadata is %v", d.Metadata)
	}
}

func TestDefaults(t *testing.T) {
	fsys := files(plain, "")
	fsys[Dockerfile] = &fstest.MapFile{}
	d, problems := Read(fsys)
	if len(problems) > 0 || d.Parser != "pytest" || d.AgentSec != 360 || d.TestSec != 60 || d.SameShell || !reflect.DeepEqual(d.Service, Service{Context: "."}) {
		t.Errorf("%+v, %v", d, problems)
	}
}

// Tasks that are older than the key instruction have descriptions.
func TestDescriptions(t *testing.T) {
	const old = "descriptions:\n- {key: hard, description: Guess.}\n- {key: base, description: Say hello.}\n"
	for config, want := range map[string]string{old: "Say hello.", old + "instruction: Sing.\n": "Sing."} {
		if d, problems := Read(files(config, client())); len(problems) > 0 || d.Instruction != want {
			t.Errorf("%q, %v", d.Instruction, problems)
		}
	}
}

func TestProblems(t *testing.T) {
	many := strings.Repeat("- x\n", maxNodes)
	for _, tc := range []struct{ name, config, compose, want string }{
		{"no task.yaml", "", client(), "task.yaml: is missing"},
		{"an empty one", "# nothing\n", client(), "task.yaml: is empty"},
		{"a list", "- a\n", client(), "task.yaml:1:1: must be a mapping, not a list"},
		{"broken YAML", "instruction: \"x\n", client(), "task.yaml:"},
		{"two documents", plain + "---\na: 1\n", client(), "a second YAML document"},
		{"an alias of itself", "instruction: x\ntags: &a [*a]\n", client(), "task.yaml:2:7: has more than"},
		{"too many values", plain + "tags:\n" + many, client(), "task.yaml:"},
		{"aliases of many values", plain + "a: &a [" + strings.Repeat("x,", maxNodes/4) + "]\nb: [*a, *a, *a, *a]\n", client(), "with its aliases written out"},
		{"no instruction", "difficulty: easy\n", client(), `"instruction" is missing`},
		{"an instruction of another kind", "instruction: [a]\n", client(), `task.yaml:1:14: "instruction" must be text, not a list`},
		{"an unknown parser", plain + "parser_name: junit\n", client(), `task.yaml:3:14: parser_name "junit" is unknown (the parsers are pytest, swebench`},
		{"no seconds", plain + "max_test_timeout_sec: soon\n", client(), `task.yaml:3:23: "max_test_timeout_sec" must be a number of seconds, not "soon"`},
		{"not a number", plain + "max_agent_timeout_sec: .nan\n", client(), `must be a number of seconds`},
		{"a misspelt key", plain + "max_agent_timeout: 5\n", client(), `task.yaml:3:1: warning: unknown key "max_agent_timeout" has no effect (did you mean "max_agent_timeout_sec"?)`},
		{"a duplicate key", plain + "difficulty: hard\n", client(), `task.yaml:3:1: duplicate key "difficulty"`},
		{"neither compose nor Dockerfile", plain, "", "docker-compose.yaml: is missing"},
		{"no services", plain, "version: '3'\n", `"services" is missing`},
		{"no service", plain, "services: {}\n", "has no service"},
		{"ports", plain, client("ports: [\"80:80\"]\n"), `docker-compose.yaml:4:5: warning: "ports" has no effect`},
		{"neither build nor image", plain, "services:\n  a:\n    tty: true\n", `has neither "build" nor "image"`},
		{"an image without a name", plain, "services:\n  a:\n    image: ${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}\n", "is not built, and has no name"},
		{"a context elsewhere", plain, "services:\n  a:\n    build: ../..\n", `docker-compose.yaml:3:12: the directory "../.." is outside of the task`},
		{"another Dockerfile", plain, "services:\n  a:\n    build: {dockerfile: Other}\n", `the Dockerfile "Other" is not supported`},
		{"arguments of the build", plain, "services:\n  a:\n    build: {args: {A: b}}\n", `"build.args" is not supported`},
		{"a volume of the host", plain, client("volumes: [\"/var/run/docker.sock:/s\"]\n"), `docker-compose.yaml:4:15: the volume "/var/run/docker.sock:/s" is not supported`},
		{"a volume outside", plain, client("volumes: [\"./../..:/s\"]\n"), `is outside of the task`},
		{"a volume at a relative path", plain, client("volumes: [\".:app\"]\n"), "must be mounted at an absolute path"},
		{"a device", plain, client("deploy: {resources: {reservations: {devices: []}}}\n"), `"deploy.resources.reservations" is not supported`},
		{"no CPUs", plain, client("cpus: none\n"), `"cpus" must be a number of CPUs, not "none"`},
		{"no memory", plain, client("mem_limit: much\n"), "must be an amount"},
		{"a name that is no variable", plain, client("environment: [\"A B=c\"]\n"), `"A B" is not a name for a variable`},
		{"a user", plain, client("user: '; rm'\n"), `"user" must be the name or number of a user`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, problems := Read(files(tc.config, tc.compose))
			if text := diag.List(problems).Error(); !strings.Contains(text, tc.want) {
				t.Errorf("got %.500s\nwant %s", text, tc.want)
			}
		})
	}
}

// Docker Compose knows more forms of a file than most tasks use.
func TestAgentsServiceIsReadAsComposeReadsIt(t *testing.T) {
	d, problems := Read(files(plain, `x-common: &common
  working_dir: ${DIR:-/work}
  tty: true
x-env: &env {FIRST: &first $T_BENCH_TEST_DIR, SECOND: pa$$word, THIRD: "$${HOME}"}
services:
  client:
    <<: [*common, {working_dir: /not}]
    image: ${BASE:-debian}:${TAG-bookworm}
    environment:
      <<: *env
      SECOND: $OTHER
      FOURTH: *first
      OFHOST:
    volumes: ["./data:${TO:-/data}"]
`))
	want := Service{
		Name: "client", Image: "debian:bookworm", WorkDir: "/work", Mounts: []Mount{{"data", "/data", false}},
		Env: []Variable{
			{"SECOND", "${OTHER}", 11, 15}, {"FOURTH", "/tests", 4, 21}, {"OFHOST", "${OFHOST:-}", 13, 7}, {"FIRST", "/tests", 4, 21}, {"THIRD", "$${HOME}", 4, 72},
		},
	}
	if len(problems) > 0 || !reflect.DeepEqual(d.Service, want) {
		t.Errorf("got  %+v\nwant %+v\n%v", d.Service, want, problems)
	}
	for key, want := range map[string]string{
		"working_dir: /app/$USER\n":               `"working_dir" must be an absolute path`,
		"working_dir: ${DIR}\n":                   `"working_dir" must be an absolute path`,
		"volumes: [\".:/app/${X}\"]\n":            "has a variable that is not known",
		"volumes: [\"./$X:/app\"]\n":              "has a variable that is not known",
		"environment: {<<: text}\n":               "must be a mapping",
		"<<: &a\n      tty: true\n      <<: *a\n": "its aliases written out",
	} {
		if _, problems := Read(files(plain, client(key))); !strings.Contains(problems.Error(), want) {
			t.Errorf("%s: got %v, want %s", key, problems, want)
		}
	}
}

func TestCommandsThatOnlyKeepAContainerAlive(t *testing.T) {
	for _, command := range []string{
		"tail -f /dev/null", "sleep infinity", "/bin/bash", "bash", "sh -c 'sleep infinity'", "[sh, -c, sleep infinity]", `["bash", "-c", "exec sleep 3600s"]`, "[]", `""`,
	} {
		if d, problems := Read(files(plain, client("command: "+command+"\n"))); len(problems) > 0 || d.Service.Composed {
			t.Errorf("%s: %v", command, problems)
		}
	}
}

// What one container of any provider does not have is left to package compose.
func TestFilesWithMoreThanOneContainer(t *testing.T) {
	const server = "  aaa:\n    image: postgres\n"
	named := "services:\n" + server + "  web:\n    build: web\n    container_name: ${T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME}\n"
	for text, service := range map[string]string{
		client() + "  db:\n    image: postgres\n":            "client",
		"services:\n" + server + "  client:\n    build: .\n": "client",
		named:                                                    "web",
		named + "  client: {build: .}\n":                         "web",
		client() + "networks:\n  a: {}\n":                        "client",
		client("shm_size: 2gb\n"):                                "client",
		client("privileged: true\n"):                             "client",
		client("command: service nginx start\n"):                 "client",
		client("command: [sh, -c, 'nginx && sleep infinity']\n"): "client",
		client("volumes: [{type: tmpfs, target: /x}]\n"):         "client",
		client("volumes: [\"data:/x\"]\n"):                       "client",
	} {
		if d, problems := Read(files(plain, text)); len(problems) > 0 || !d.Service.Composed || d.Service.Name != service {
			t.Errorf("%s%+v, %v", text, d.Service, problems)
		}
	}
}

func TestCommandsOfASolutionAreTyped(t *testing.T) {
	fsys := fstest.MapFS{CommandsFile: {Data: []byte(`
- command: echo 'a'
  min_timeout_sec: 1.5
- command: make
  block: true
  max_timeout_sec: 60
- command: C-c
  append_enter: false
`)}}
	script, problems, err := Solution(fsys)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	for _, want := range []string{
		`send-keys -t rollout-solution 'echo '\''a'\''' 'Enter'` + "\nsleep 1.5\n",
		`send-keys -t rollout-solution 'make' '; tmux wait -S rollout-solution' 'Enter'` + "\ntimeout 60s tmux wait rollout-solution ",
		"send-keys -t rollout-solution 'C-c'\ntmux capture-pane",
	} {
		if !strings.Contains(string(script), want) {
			t.Errorf("the script has no %q:\n%s", want, script)
		}
	}
	if out, err := exec.Command("bash", "-n", "-c", string(script)).CombinedOutput(); err != nil {
		t.Errorf("bash cannot read it: %s", out)
	}
	fsys[SolutionFile] = &fstest.MapFile{Data: []byte("true\n")}
	if script, _, err := Solution(fsys); err != nil || string(script) != "true\n" {
		t.Errorf("solution.sh does not win: %q, %v", script, err)
	}
	for text, want := range map[string]string{"a: b\n": "must be a list", "- {block: true}\n": `"command" is missing`, "- {command: x, block: maybe}\n": `"block" must be true or false`} {
		_, problems, _ := Solution(fstest.MapFS{CommandsFile: {Data: []byte(text)}})
		if !strings.Contains(diag.List(problems).Error(), want) {
			t.Errorf("%q: %v", text, problems)
		}
	}
}

// Files of strangers cause problems with places, and no panics.
func FuzzRead(f *testing.F) {
	f.Add(plain, client("volumes: [\".:/app\"]\n"), "- command: x\n")
	f.Add("instruction: [", "services: {a: {build: {}}}", "[]")
	f.Add("? a\n: b", "services:\n  a:\n    environment: [[x]]\n    deploy: {resources: 1}", "- - a")
	f.Fuzz(func(t *testing.T, config, compose, commands string) {
		fsys := files(config, compose)
		fsys[CommandsFile] = &fstest.MapFile{Data: []byte(commands)}
		d, problems := Read(fsys)
		_, more, err := Solution(fsys)
		if problems.Err() == nil && (d.Service.Context == "") == (d.Service.Image == "") {
			t.Errorf("there is no image: %s", fmt.Sprint(d, more, err))
		}
	})
}
