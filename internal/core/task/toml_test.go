package task

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/org/rollout-action/internal/lib/fields"
)

var update = flag.Bool("update", false, "rewrite testdata/schema.golden")

func TestConfig(t *testing.T) {
	with := func(change func(*Config)) Config {
		c := Defaults(FormatRollout)
		change(&c)
		return c
	}
	for _, tc := range []struct {
		name, toml string
		want       Config
	}{
		{"the specification's example", `
version = "1.0"

[metadata]
author_name = "Steve Jobs"
author_email = "steve@apple.com"
difficulty = "easy"
category = "programming"
tags = ["trivial"]

[verifier]
timeout_sec = 120.0

[agent]
install_timeout_sec = 300.0
timeout_sec = 120.0

[environment]
build_timeout_sec = 600.0
docker_image = "some-org/some-name:some-tag"
cpus = "1"
memory = "2G"
storage = "10G"
`, with(func(c *Config) {
			c.Metadata = map[string]any{
				"author_name": "Steve Jobs", "author_email": "steve@apple.com",
				"difficulty": "easy", "category": "programming", "tags": []any{"trivial"},
			}
			c.Verifier.TimeoutSec = 120
			c.Agent.TimeoutSec = 120
			c.Environment.DockerImage = "some-org/some-name:some-tag"
			c.Environment.Explicit = ExplicitLimits{CPUs: true, Memory: true, Storage: true}
		})},
		{"a task written for Harbor", `
schema_version = "1.1"
artifacts = []
[task]
name = "org/x"
[[task.authors]]
name = "A"
[verifier]
timeout_sec = 900
[verifier.env]
[solution.env]
[environment]
cpus = 2
memory_mb = 4096
storage_mb = 10240
gpus = 0
allow_internet = true
network_mode = "public"
mcp_servers = []
os = "linux"
`, with(func(c *Config) {
			c.Version = "1.1"
			c.Info = Info{Name: "org/x", Authors: []Author{{Name: "A"}}}
			c.Verifier.TimeoutSec = 900
			c.Environment.MilliCPUs = 2000
			c.Environment.Memory = 4 << 30
			c.Environment.Storage = 10 << 30
			c.Environment.Explicit = ExplicitLimits{CPUs: true, Memory: true, Storage: true}
		})},
		{"dotted keys and inline tables", `
version = "1.0"
agent.timeout_sec = 5
environment = { cpus = "500m", memory = "512Mi" }
`, with(func(c *Config) {
			c.Agent.TimeoutSec = 5
			c.Environment.MilliCPUs = 500
			c.Environment.Memory = 512 << 20
			c.Environment.Explicit = ExplicitLimits{CPUs: true, Memory: true}
		})},
		{"a fraction of a CPU, and a source", "version = \"1\"\nsource = \"swe-bench\"\nenvironment.cpus = 0.25\n",
			with(func(c *Config) {
				c.Version, c.Source, c.Environment.MilliCPUs, c.Environment.Explicit.CPUs = "1", "swe-bench", 250, true
			})},
		{"the shortest timeouts and whole megabytes as floats", "version = \"1.0\"\nverifier.timeout_sec = 0.001\nenvironment.memory_mb = 512.0",
			with(func(c *Config) {
				c.Verifier.TimeoutSec, c.Environment.Memory, c.Environment.Explicit.Memory = 0.001, 512<<20, true
			})},
		{"Windows line ends and a byte order mark", "\ufeffversion = \"1.0\"\r\n[agent]\r\ntimeout_sec = 7\r\n",
			with(func(c *Config) { c.Agent.TimeoutSec = 7 })},
		{"a default that is asked for", "version = \"1.0\"\nenvironment.storage = \"10G\"\n",
			with(func(c *Config) { c.Environment.Explicit.Storage = true })},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Load(newTask(t, map[string]string{"task.toml": tc.toml}))
			if len(got.Problems) > 0 {
				t.Errorf("problems:\n%v", got.Problems)
			}
			if !reflect.DeepEqual(got.Config, tc.want) {
				t.Errorf("got  %+v\nwant %+v", got.Config, tc.want)
			}
			if err := checkSchema(t, tc.toml); err != nil {
				t.Errorf("the schema refuses it: %v", err)
			}
		})
	}
}

func TestConfigProblems(t *testing.T) {
	for _, tc := range []struct {
		name, toml string
		want       []string
		beyond     bool // the schema cannot check it, or the document is no TOML
	}{
		{"no version", "source = \"x\"", []string{`task.toml: warning: "version" is missing; using "1.0" (begin with: version = "1.0")`}, true},
		{"an empty file", "# nothing\n", []string{`task.toml: warning: "version" is missing; using "1.0" (begin with: version = "1.0")`}, true},
		{"a version that is a number", "version = 1.0", []string{`task.toml:1:1: "version" must be a string, not the number 1.0 (write it in quotes: "1.0")`}, false},
		{"a later version", "version = \"2.0\"", []string{`task.toml:1:1: warning: unknown version "2.0" of the format; reading it as 1.0`}, true},
		{"broken syntax", "version = \"1.0\"\n[agent\ntimeout_sec = 1", []string{`task.toml:2:7: expected ']' to close table name`}, true},
		{"a key twice", "version = \"1.0\"\nversion = \"1.0\"", []string{`task.toml:2:1: key version is already defined`}, true},
		{"several problems at once, in their order",
			"version = \"1.0\"\n[verifier]\n  timeout_sec = -1\n[agent]\ntimeout_sec = \"600\"\ninstall_timeout_sec = nan\n[environment]\nbuild_timeout_sec = inf\ncpus = true\nmemory = 2048\n",
			[]string{
				`task.toml:3:3: "verifier.timeout_sec" must be at least 0.001 seconds, not -1`,
				`task.toml:5:1: "agent.timeout_sec" must be a number of seconds, not the string "600" (write it without quotes)`,
				`task.toml:6:1: "agent.install_timeout_sec" must be a finite number, not nan`,
				`task.toml:8:1: "environment.build_timeout_sec" must be a finite number, not inf`,
				`task.toml:9:1: "environment.cpus" must be a number of CPUs, not true (write cpus = 2, or cpus = "500m")`,
				`task.toml:10:1: "environment.memory" must be an amount as a string, not the number 2048 (write memory = "2G", or memory_mb = 2048)`,
			}, false},
		{"a timeout of zero", "version = \"1.0\"\nagent.timeout_sec = 0", []string{`task.toml:2:7: "agent.timeout_sec" must be at least 0.001 seconds, not 0`}, false},
		{"a timeout longer than a year", "version = \"1.0\"\nagent.timeout_sec = 1e12", []string{`task.toml:2:7: "agent.timeout_sec" must be at most a year, not 1e12`}, false},
		{"both forms of a size", "version = \"1.0\"\n[environment]\nmemory = \"2G\"\nmemory_mb = 2048", []string{`task.toml:4:1: "environment.memory" and "memory_mb" are the same setting (keep one of them)`}, false},
		{"no CPU at all", "version = \"1.0\"\n[environment]\ncpus = 0", []string{`task.toml:3:1: "environment.cpus" must be more than 0, not 0`}, false},
		{"negative CPUs", "version = \"1.0\"\n[environment]\ncpus = -1", []string{`task.toml:3:1: "environment.cpus": "-1" is negative`}, false},
		{"an infinity of CPUs", "version = \"1.0\"\n[environment]\ncpus = inf", []string{`task.toml:3:1: "environment.cpus": "inf" is not a number of CPUs such as 1, 0.5 or 500m`}, true},
		{"CPUs in words", "version = \"1.0\"\n[environment]\ncpus = \"two\"", []string{`task.toml:3:1: "environment.cpus": "two" is not a number of CPUs such as 1, 0.5 or 500m`}, true},
		{"memory in another notation", "version = \"1.0\"\n[environment]\nmemory = \"512m\"", []string{`task.toml:3:1: "environment.memory": "512m" is not a whole number of bytes: write 512M or 512Mi`}, true},
		{"too little memory", "version = \"1.0\"\n[environment]\nmemory = \"2k\"", []string{`task.toml:3:1: "environment.memory" must be at least 1Mi, not 2k`}, true},
		{"negative megabytes", "version = \"1.0\"\n[environment]\nstorage_mb = -5", []string{`task.toml:3:1: "environment.storage_mb": "-5" is negative`}, false},
		{"no megabytes", "version = \"1.0\"\n[environment]\nstorage_mb = 0", []string{`task.toml:3:1: "environment.storage_mb" must be at least 1Mi, not 0`}, false},
		{"half a megabyte", "version = \"1.0\"\n[environment]\nmemory_mb = 0.5", []string{`task.toml:3:1: "environment.memory_mb": "0.5" is not a whole number of megabytes such as 2048`}, false},
		{"megabytes as text", "version = \"1.0\"\n[environment]\nmemory_mb = \"2048\"", []string{`task.toml:3:1: "environment.memory_mb" must be a whole number of megabytes, not the string "2048" (write it without quotes)`}, false},
		{"an image with a space", "version = \"1.0\"\n[environment]\ndocker_image = \"a b\"", []string{`task.toml:3:1: "environment.docker_image" must be the name of an image, not the string "a b"`}, false},
		{"a section that is no table", "version = \"1.0\"\nagent = 600\nmetadata = \"x\"\n", []string{
			`task.toml:2:1: "agent" must be a table, not the number 600 (write [agent])`,
			`task.toml:3:1: "metadata" must be a table, not the string "x" (write [metadata])`,
		}, false},
		{"an array of sections", "version = \"1.0\"\n[[verifier]]\ntimeout_sec = 1", []string{`task.toml:2:3: "verifier" must be a table, not an array (write [verifier])`}, false},
		{"a date instead of a string", "version = 2025-01-01", []string{`task.toml:1:1: "version" must be a string, not the date or time 2025-01-01 (write it in quotes: "2025-01-01")`}, true},
		{"unknown keys are warnings", "version = \"1.0\"\nauthor = \"me\"\n[environment]\nmemroy = \"2G\"\n[agent]\ntimeout = 5\n", []string{
			`task.toml:2:1: warning: unknown key "author" has no effect`,
			`task.toml:4:1: warning: unknown key "environment.memroy" has no effect (did you mean "memory"?)`,
			`task.toml:6:1: warning: unknown key "agent.timeout" has no effect (did you mean "timeout_sec"?)`,
		}, true},
		{"unsupported keys that change a trial are refused", `version = "1.0"
artifacts = [{ source = "/app/out", service = "database" }]
multi_step_reward_strategy = "mean"

# [[steps]] would give it a meaning
[solution.env]
KEY = "x"
[verifier]
environment_mode = "shared"
environment = { gpus = 1 }
collect = [{ command = "true", service = "db" }]
[agent]
network_mode = "none"
[environment]
gpus = 1
gpu_types = ["H100"]
tpu = { type = "v6e", topology = "2x2" }
allow_internet = false
network_mode = "allowlist"
os = "windows"
mcp_servers = [{ name = "x" }]
skills_dir = "/skills"
`, []string{
			`task.toml: "artifacts.service": there is no service "database" in environment/docker-compose.yaml (name one of its services)`,
			`task.toml: "verifier.collect.service": there is no service "db" in environment/docker-compose.yaml (name one of its services)`,
			`task.toml:3:1: warning: "multi_step_reward_strategy" has no effect (there are no steps, so there is one reward)`,
			`task.toml:9:1: "verifier.environment_mode" is shared, but there is "verifier.environment" (remove one of them)`,
			`task.toml:17:1: "environment.tpu" is not supported: environments have no TPU (leave the task out: exclude_tasks in the job)`,
			`task.toml:19:1: warning: an allowlist without allowed_hosts allows nothing (write none, or list hosts: allowed_hosts = ["pypi.org"])`,
			`task.toml:20:1: "environment.os" is not supported: environments run Linux (leave the task out: exclude_tasks in the job)`,
			`task.toml:21:16: MCP server "x": it has neither a command nor a url (give it a command, or a url)`,
		}, true},
		{"invalid users, directories and checks", `version = "1.0"
[agent]
user = "a b"
[verifier]
user = -1
[environment]
workdir = "app"
healthcheck = { interval_sec = -1, timeout_sec = 0, retries = 0, start_period_sec = nan, comand = "x" }
`, []string{
			`task.toml:3:1: "agent.user" must be the name or number of a user, not the string "a b" (write user = "agent", or user = 1000)`,
			`task.toml:5:1: "verifier.user" must be the name or number of a user, not the number -1 (write user = "agent", or user = 1000)`,
			`task.toml:7:1: "environment.workdir" must be an absolute path, not the string "app" (write it like "/app")`,
			`task.toml:8:1: "environment.healthcheck" needs "command" (write command = "..."; exit code 0 is healthy)`,
			`task.toml:8:17: "environment.healthcheck.interval_sec" must be at least 0, not -1`,
			`task.toml:8:36: "environment.healthcheck.timeout_sec" must be at least 0.001 seconds, not 0`,
			`task.toml:8:53: "environment.healthcheck.retries" must be at least 1, not 0`,
			`task.toml:8:66: "environment.healthcheck.start_period_sec" must be a finite number, not nan`,
			`task.toml:8:90: warning: unknown key "environment.healthcheck.comand" has no effect (did you mean "command"?)`,
		}, true},
		{"invalid variables", `version = "1.0"
[environment.env]
"A B" = "x"
ROLLOUT_TASK_INSTRUCTION = "x"
NUMBER = 1
OPEN = "${X"
ODD = "a ${1} b"
NESTED = "${A:-${B}}"
`, []string{
			`task.toml:3:1: "environment.env.A B" is not a name for a variable (use letters, digits and _)`,
			`task.toml:4:1: "environment.env.ROLLOUT_TASK_INSTRUCTION" is set by Rollout (choose another name)`,
			`task.toml:5:1: "environment.env.NUMBER" must be a string, not the number 1 (write it in quotes: "1")`,
			`task.toml:6:1: "environment.env.OPEN" has a ${ that is neither ${NAME} nor ${NAME:-default} (write $${ for a literal ${)`,
			`task.toml:7:1: "environment.env.ODD" has a placeholder without a valid name (write ${NAME} or ${NAME:-default}; $${ is a literal ${)`,
			`task.toml:8:1: "environment.env.NESTED" has a ${ that is neither ${NAME} nor ${NAME:-default} (write $${ for a literal ${)`,
		}, true},
		{"invalid artifacts", `version = "1.0"
artifacts = ["out", "/", "/a/../b", 1, {}, {source = "/x", destination = "../y"}, {source = "/x", exclude = "*"}, "/a", {source = "/c", destination = "a/b"}, {source = "/d", sauce = 1}]
`, []string{
			`task.toml:2:14: "artifacts[0]" must be the absolute path of a file or directory, not the string "out" (write it like "/app/output")`,
			`task.toml:2:21: "artifacts[1]" must be the absolute path of a file or directory, not the string "/" (write it like "/app/output")`,
			`task.toml:2:26: "artifacts[2]": "/a/../b" is not the absolute path of a file or directory (write it like "/app/output")`,
			`task.toml:2:37: "artifacts[3]" must be a path or a table, not the number 1 (write "/app/output", or {source = "/app/output"})`,
			`task.toml:2:40: "artifacts[4]" needs "source" (write it like "/app/output")`,
			`task.toml:2:44: "artifacts[5]": "../y" is not a path below the trial's artifacts directory (write it like "output")`,
			`task.toml:2:99: "artifacts[6].exclude" must be an array of strings, not the string "*" (write exclude = ["..."])`,
			`task.toml:2:121: "artifacts": "/a" and "/c" would overwrite each other (give one of them another destination)`,
			`task.toml:2:175: warning: unknown key "artifacts[9].sauce" has no effect (did you mean "source"?)`,
		}, true},
		{"invalid descriptions", "version = \"1.5\"\n[task]\nname = 1\nauthors = \"me\"\nkeywords = [1]\ndifficulty = \"easy\"\n[solution]\ntimeout_sec = 1\n[verifier]\nparser_name = \"x\"\n", []string{
			`task.toml:1:1: warning: unknown version "1.5" of the format; reading it as 1.4`,
			`task.toml:3:1: warning: "task.name" should be a string and is ignored`,
			`task.toml:4:1: warning: "task.authors" should be an array of {name, email} and is ignored`,
			`task.toml:5:1: warning: "task.keywords" should be an array of strings and is ignored`,
			`task.toml:6:1: warning: unknown key "task.difficulty" has no effect`,
			`task.toml:8:1: warning: unknown key "solution.timeout_sec" has no effect`,
			`task.toml:10:1: warning: unknown key "verifier.parser_name" has no effect`,
		}, true},
		{"many unknown keys are cut", "version = \"1.0\"\n[agent]\na = 1\nb = 1\nc = 1\nd = 1\ne = 1\nf = 1\ng = 1\nh = 1\ni = 1\nj = 1\nk = 1\nl = 1\n", []string{
			`task.toml:3:1: warning: unknown key "agent.a" has no effect`,
			`task.toml:4:1: warning: unknown key "agent.b" has no effect`,
			`task.toml:5:1: warning: unknown key "agent.c" has no effect`,
			`task.toml:6:1: warning: unknown key "agent.d" has no effect`,
			`task.toml:7:1: warning: unknown key "agent.e" has no effect`,
			`task.toml:8:1: warning: unknown key "agent.f" has no effect`,
			`task.toml:9:1: warning: unknown key "agent.g" has no effect`,
			`task.toml:10:1: warning: unknown key "agent.h" has no effect`,
			`task.toml:11:1: warning: unknown key "agent.i" has no effect`,
			`task.toml:12:1: warning: unknown key "agent.j" has no effect`,
			`task.toml:13:1: warning: 2 more unknown keys have no effect`,
		}, true},
		{"very deep keys", "version = \"1.0\"\n[" + strings.Repeat("a.", 2_000) + "a]\nb = 1\n[solution]\n" + strings.Repeat("a.", 2_000) + "a = 1\n", []string{
			`task.toml:2:2: warning: unknown key "a" has no effect`,
			`task.toml:5:1: warning: unknown key "solution.a" has no effect`,
		}, true},
		{"text that is not UTF-8", "version = \"1.0\"\n# caf\xe9\n", []string{`task.toml: is not UTF-8`}, true},
		{"a file that is too large", "version = \"1.0\"\n#" + strings.Repeat("x", maxConfigSize), []string{`task.toml: is larger than 1 MiB`}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := newTask(t, map[string]string{"task.toml": tc.toml})
			got := Load(dir)
			equalProblems(t, dir, got, tc.want)
			if got.Err() != nil && !reflect.DeepEqual(got.Config, Defaults(FormatRollout)) && !tc.beyond {
				t.Errorf("a wrong value did not keep its default: %+v", got.Config)
			}
			if !tc.beyond && checkSchema(t, tc.toml) == nil {
				t.Error("the schema accepts it")
			}
		})
	}
}

// equalProblems compares problems. Their paths are relative to the task at dir.
func equalProblems(t *testing.T, dir string, got *Task, want []string) {
	t.Helper()
	text := strings.ReplaceAll(got.Problems.Error(), dir+string(filepath.Separator), "")
	if text != strings.Join(want, "\n") {
		t.Errorf("problems:\n%s\nwant:\n%s", text, strings.Join(want, "\n"))
	}
}

// checkSchema validates a document with the published schema.
func checkSchema(t *testing.T, document string) error {
	t.Helper()
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("task.json", parsed); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("task.json")
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := toml.Unmarshal([]byte(strings.TrimPrefix(document, "\ufeff")), &values); err != nil {
		t.Fatal(err)
	}
	return schema.Validate(values)
}

// The schema is made from the tags of file, by which Load also decodes.
func TestSchemaGolden(t *testing.T) {
	got, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/schema.golden"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(golden); err != nil || string(want) != string(got) {
		t.Errorf("%v; the schema is\n%s", err, got)
	}
	documented(t, reflect.TypeFor[file]())
}

// documented checks that all keys have a doc tag.
func documented(t *testing.T, typ reflect.Type) {
	t.Helper()
	for typ.Kind() == reflect.Slice || typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || typ == reflect.TypeFor[Author]() {
		return
	}
	for _, r := range fields.Of(typ) {
		if r.Doc == "" {
			t.Errorf("%s of %s has no doc tag", r.Key, typ)
		}
		documented(t, r.Type)
	}
}

// FuzzConfig checks that Load never panics or hangs, whatever the task.toml.
func FuzzConfig(f *testing.F) {
	f.Add([]byte("version = \"1.0\"\n[environment]\ncpus = 1\nmemory = \"2G\"\n"))
	f.Add([]byte("a.b.c = {d = [1, 2.0, nan], e = 2025-01-01}\n[[x]]\n[x.y]\n"))
	f.Add([]byte("environment = {cpus = \"1e99999\", memory_mb = 9223372036854775807}\nagent.timeout_sec = -inf"))
	f.Add([]byte("\ufeff'' = 1\n\"\\u0000\" = 1\nversion = \"\"\n"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content []byte) {
		if err := os.WriteFile(filepath.Join(dir, "task.toml"), content, 0o644); err != nil {
			t.Fatal(err)
		}
		c := Load(dir).Config
		e := c.Environment
		if e.MilliCPUs <= 0 || e.Memory < 1<<20 || e.Storage < 1<<20 || c.Version == "" {
			t.Errorf("Load accepted an invalid configuration: %+v", c)
		}
		for _, sec := range []float64{c.Verifier.TimeoutSec, c.Agent.TimeoutSec, c.Agent.InstallTimeoutSec, e.BuildTimeoutSec} {
			if !(sec > 0 && sec <= 365*24*60*60) {
				t.Errorf("Load accepted the timeout %v", sec)
			}
		}
	})
}
