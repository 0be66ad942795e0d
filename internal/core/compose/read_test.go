package compose

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/org/rollout-action/internal/core/environment"
)

// read reads a file with these services below the key services.
func read(t *testing.T, text string, more fstest.MapFS) (*File, []string) {
	t.Helper()
	files := fstest.MapFS{"environment/docker-compose.yaml": {Data: []byte(text)}, "environment/Dockerfile": {Data: []byte("FROM x\n")}}
	for name, f := range more {
		files[name] = f
	}
	file, problems := Read(Source{FS: files, Dir: "environment", Lookup: func(name string) (string, bool) { return "of the task", name == "GIVEN" }})
	var out []string
	for _, p := range problems {
		out = append(out, fmt.Sprintf("%d:%d: %s (%s)", p.Line, p.Column, p.Message, p.Hint))
	}
	if (file == nil) != (len(out) > 0) {
		t.Errorf("%v and %v", file, out)
	}
	return file, out
}

func TestRead(t *testing.T) {
	file, problems := read(t, `version: "3.8"
x-common: &common
  restart: always
  environment: {A: "1"}
services:
  main:
    build: {context: "${CONTEXT_DIR}"}
    image: ${MAIN_IMAGE_NAME}
    command: ["sh", "-c", "sleep infinity"]
    environment: ["GIVEN", "WITH=${GIVEN}", "OTHER=${NO:-fallback}", "EMPTY=${NO}"]
    volumes:
      - ${HOST_VERIFIER_LOGS_PATH}:${ENV_VERIFIER_LOGS_PATH}
    depends_on: [db]
    deploy: {resources: {limits: {cpus: "0.5", memory: 128M}}}
  db:
    <<: *common
    build:
      context: ..
      dockerfile: shared/Dockerfile.db
      args: {V: "2"}
    volumes: [data:/data, "./conf:/etc/conf:ro", "./one.txt:/etc/one.txt"]
    networks: {back: {aliases: [store]}}
    healthcheck: {test: "exit 0", interval: 2s, retries: 4}
    cap_drop: [ALL]
    cap_add: [SETUID]
    ports: ["80:80"]
    expose: [80]
  gate:
    image: debian:bookworm
    network_mode: service:db
    entrypoint: /bin/run --all
  later: {image: x, profiles: [extra]}
networks: {back: {internal: true}}
volumes:
  data:
`, fstest.MapFS{
		"shared/Dockerfile.db": {Data: []byte("FROM y\n")}, "environment/conf/a": {Data: []byte("a")}, "environment/one.txt": {Data: []byte("1"), Mode: 0o755},
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	main, db, gate := file.Services.Main, file.Services.Others[0], file.Services.Others[1]
	if got := fmt.Sprint(main.Env); got != "map[EMPTY: GIVEN:of the task OTHER:fallback WITH:of the task]" {
		t.Error(got)
	}
	if len(main.Mounts)+len(main.Files) > 0 || main.Command != nil || file.Special != "" || main.Limits.MilliCPUs != 500 || main.Limits.Memory != 128<<20 {
		t.Errorf("main: %+v", main)
	}
	if main.DependsOn[0] != (environment.Dependency{Service: "db", Condition: environment.ServiceStarted}) {
		t.Errorf("main waits for %+v", main.DependsOn)
	}
	if len(file.Services.Others) != 2 || !db.Restart || db.Env["A"] != "1" || fmt.Sprint(db.Networks["back"].Aliases) != "[store]" || len(db.Files) != 2 || db.Mounts[0].Volume != "data" {
		t.Errorf("db: %+v", db)
	}
	if h := db.Healthcheck; h == nil || h.Retries != 4 || h.Args[2] != "exit 0" {
		t.Errorf("the health check is %+v", h)
	}
	if gate.NetworkOf != "db" || fmt.Sprint(gate.Entrypoint) != "[/bin/run --all]" {
		t.Errorf("gate: %+v", gate)
	}
	b := file.Images["db"].Build
	if b.Context != "." || b.Dockerfile != "shared/Dockerfile.db" || b.Args["V"] != "2" {
		t.Errorf("the build is %+v", b)
	}
}

func TestUnpinned(t *testing.T) {
	var none *File
	if none.Unpinned() {
		t.Error("no file is unpinned")
	}
	for image, want := range map[string]bool{"image: x:1": true, "image: x@sha256:" + strings.Repeat("0", 64): false, "build: .": false, "{image: x, build: .}": false} {
		file, problems := read(t, "services:\n  db: {"+strings.Trim(image, "{}")+"}\n", nil)
		if len(problems) > 0 || file.Unpinned() != want {
			t.Errorf("%s: %v, want %t", image, problems, want)
		}
	}
}

// A few lines that stand for billions of nodes, or for themselves, are refused at once.
func TestAliasesThatGrow(t *testing.T) {
	bomb := "x-0: &a0 {a: 1}\n"
	for i := range 12 {
		bomb += fmt.Sprintf("x-%d: &a%d {<<: [%s]}\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	for name, text := range map[string]string{
		"growing": bomb + "services:\n  db: {<<: *a12, image: x}\n",
		"endless": "x-a: &a [*a]\nservices:\n  db: {image: x}\n",
		"deep":    "x-a: " + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "\nservices:\n  db: {image: x}\n",
	} {
		if _, problems := read(t, text, nil); len(problems) != 1 || !strings.Contains(problems[0], "too large, or nested too deeply") {
			t.Errorf("%s: %v", name, problems)
		}
	}
}

// Nothing that a container would have of the machine gets in.
func TestRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"privileged: true":                               "3:8: \"services.db.privileged\": a privileged container controls the whole machine",
		"privileged: \"${X:-true}\"":                     "a privileged container",
		"network_mode: host":                             "\"host\" is not supported",
		"network_mode: container:other":                  "is not supported",
		"pid: host":                                      `"services.db.pid" is not supported (processes`,
		"ipc: host":                                      "is not supported",
		"userns_mode: host":                              "is not supported",
		"cgroup_parent: /x":                              "is not supported",
		"devices: [/dev/kvm]":                            "is not supported (devices",
		"runtime: nvidia":                                "is not supported",
		"sysctls: {a: b}":                                "is not supported",
		"cap_add: [SYS_ADMIN]":                           "SYS_ADMIN gives power over the machine",
		"cap_add: [ALL]":                                 "ALL gives power",
		"security_opt: [seccomp:unconfined]":             "weakens",
		"security_opt: [apparmor=unconfined]":            "weakens",
		"volumes: [/var/run/docker.sock:/sock]":          "the engine's socket controls the whole machine",
		"volumes: [/etc:/host]":                          "/etc is outside of the task",
		"volumes: [../../secret:/x]":                     "../../secret is outside of the task",
		"volumes: [~/.ssh:/x]":                           "is outside of the task",
		"volumes: [\"${X:-/etc}:/x\"]":                   "/etc is outside of the task",
		"volumes: [{type: bind, source: /, target: /x}]": "/ is outside of the task",
		"volumes: [nothing:/x]":                          "the volume nothing is not defined",
		"build: ../..":                                   "the context ../.. is outside of the task",
		"build: {context: /etc}":                         "the context /etc is outside",
		"build: https://example.com/x.git":               "outside of the task",
		"build: {context: ., dockerfile: ../../x}":       "outside of the task",
		"build: {context: ., privileged: true}":          "is not supported",
		"build: {context: ., network: host}":             "is not supported",
		"env_file: [/etc/passwd]":                        "/etc/passwd is outside of the task",
		"extra_hosts: [\"m:host-gateway\"]":              "the machine must not be reached",
		"extends: {file: /etc/x.yaml, service: a}":       "is not supported",
		"configs: [x]":                                   "is not supported",
		"deploy: {resources: {reservations: {devices: [{capabilities: [gpu]}]}}}": "devices of the machine",
		"depends_on: [no]":  "no service \"no\"",
		"depends_on: [db]":  "db and db wait for each other",
		"scale: 3":          "one container",
		"networks: [other]": "the network other is not defined",
		"networks: {default: {ipv4_address: 10.0.0.1}}": "addresses are not supported",
		"labels: !reset {}":                             "the tag !reset is not supported",
	} {
		_, problems := read(t, "services:\n  db: {image: x,\n       "+text+"}\n", nil)
		if !strings.Contains(strings.Join(problems, "\n"), want) {
			t.Errorf("%s: %q, want %q", text, problems, want)
		}
	}
	for text, want := range map[string]string{
		"services: {db: {image: x}}\nnetworks: {default: {external: true}}":                            `"networks.default.external" is not supported`,
		"services: {db: {image: x}}\nvolumes: {v: {driver_opts: {type: none, o: bind, device: /etc}}}": `"volumes.v.driver_opts" is not supported`,
		"include: [/etc/x]\nservices: {db: {image: x}}":                                                `"include" is not supported`,
		"services: {db: {}}":          "neither image nor build",
		"services: {a/b: {image: x}}": "",
		"services: [":                 "is not valid YAML",
		"[]":                          "is not a mapping",
		"services: {main: {volumes: [\"vol:/tests\"]}}\nvolumes: {vol: }":   "/tests is a directory that rollout fills",
		"x-a: &a {privileged: true}\nservices: {db: {image: x, <<: *a}}":    "a privileged container",
		"x-a: &a {devices: [/dev/x]}\nservices: {db: {image: x, <<: [*a]}}": "is not supported (devices",
	} {
		_, problems := read(t, text, nil)
		if !strings.Contains(strings.Join(problems, "\n"), want) || len(problems) == 0 {
			t.Errorf("%s: %q, want %q", text, problems, want)
		}
	}
}

func TestTargetsOfBuildsAreTheLastStage(t *testing.T) {
	more := fstest.MapFS{"environment/Dockerfile": {Data: []byte("FROM x as First\nFROM y AS second\n")}}
	file, problems := read(t, "services: {db: {build: {context: ., target: first}}}", more)
	if file == nil {
		t.Fatal(problems)
	}
	build := file.Images["db"].Build
	files, err := build.Files(more)
	if err != nil {
		t.Fatal(err)
	}
	text, err := fs.ReadFile(files, "Dockerfile")
	if err != nil || string(text) != "FROM x as First\nFROM y AS second\n\n\nFROM first\n" {
		t.Errorf("the Dockerfile is %q, %v", text, err)
	}
	if _, problems := read(t, "services: {db: {build: {context: ., target: third}}}", more); len(problems) != 1 || !strings.Contains(problems[0], "environment/Dockerfile has no stage with the name third") {
		t.Errorf("%q", problems)
	}
}

func TestBuildsWithoutADockerfileAreRefused(t *testing.T) {
	more := fstest.MapFS{"environment/there/Dockerfile": {Data: []byte("FROM x\n")}}
	for build, want := range map[string]string{
		"{context: ., dockerfile: Other}": "the Dockerfile environment/Other does not exist",
		"./nowhere":                       "the Dockerfile environment/nowhere/Dockerfile does not exist",
		"{context: ., dockerfile: there}": "the Dockerfile environment/there is not a file",
		"./there":                         "",
	} {
		for _, name := range []string{"db", "main"} {
			_, problems := read(t, "services: {"+name+": {build: "+build+"}}", more)
			if got := strings.Join(problems, "\n"); !strings.Contains(got, want) || (want == "") != (got == "") {
				t.Errorf("%s of %s: %q, want %q", build, name, got, want)
			}
		}
	}
	src := Source{FS: fstest.MapFS{"e/docker-compose.yaml": {Data: []byte("services: {main: {build: ./nowhere}}")}}, Dir: "e", Prebuilt: true}
	if _, problems := Read(src); len(problems) > 0 {
		t.Errorf("the image of main is not built, and its Dockerfile is missed: %v", problems)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("services: {main: {image: x}}")
	f.Add("a: &a {<<: *a}\nservices: *a")
	f.Fuzz(func(t *testing.T, text string) {
		Read(Source{FS: fstest.MapFS{"environment/docker-compose.yaml": {Data: []byte(text)}}, Dir: "environment", Lookup: func(string) (string, bool) { return "", false }})
	})
}

// The agent's service may have another name in the file. It is main in a trial, and the caller
// reads what every provider has of it.
func TestReadWithAnotherMain(t *testing.T) {
	read := func(text string) (*File, []Problem) {
		return Read(Source{FS: fstest.MapFS{"docker-compose.yaml": {Data: []byte(text)}}, Dir: ".", Main: "client", Lookup: func(string) (string, bool) { return "", false }})
	}
	file, problems := read(`services:
  client: {build: ./elsewhere, image: "${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}", user: someone, working_dir: /x, environment: {A: b}, volumes: ["./data:/data", "/host:/logs"], depends_on: [db]}
  db: {image: "${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}"}
  proxy: {image: nginx, depends_on: [client], network_mode: "service:client"}
`)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	main := file.Services.Main
	if main.Name != "main" || main.User+main.WorkDir != "" || len(main.Env)+len(main.Files) > 0 || len(main.DependsOn) != 1 || file.Special != "" {
		t.Errorf("main is %+v, special is %q", main, file.Special)
	}
	if got := fmt.Sprint(main.Networks["default"].Aliases); got != "[client]" {
		t.Errorf("main's further names are %s", got)
	}
	if image, ok := file.Images["db"]; !ok || image.Ref != "" || image.Build != nil || file.MainImage().Build != nil {
		t.Errorf("the images are %+v", file.Images)
	}
	if proxy := file.Services.Others[1]; proxy.NetworkOf != "main" || proxy.DependsOn[0].Service != "main" {
		t.Errorf("the proxy is %+v", proxy)
	}
	for text, want := range map[string]string{
		"services:\n  client: {image: x}\n  main: {image: y}\n":                              "has this name",
		"services:\n  client: {image: x, privileged: true}\n":                                `"services.client.privileged"`,
		"services:\n  client: {image: x, depends_on: [none]}\n":                              "there is no service",
		"services:\n  client: {image: x, volumes: [{type: npipe, source: a, target: /a}]}\n": `"services.client.volumes"`,
	} {
		if file, problems := read(text); file != nil || len(problems) == 0 || !strings.Contains(problems[0].Message, want) {
			t.Errorf("%s%+v", text, problems)
		}
	}
}
