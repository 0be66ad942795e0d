package task

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// loadWith loads a small task with files changed.
func loadWith(t *testing.T, opts Options, files map[string]string) *Task {
	t.Helper()
	return (&Loader{Options: opts}).Load(newTask(t, files))
}

// Forms of task.toml in published datasets.
func TestConfigsOfHarborTasks(t *testing.T) {
	plain := func(change func(*Config)) Config {
		c := Defaults(FormatHarbor)
		change(&c)
		return c
	}
	for _, tc := range []struct {
		name, toml string
		want       Config
	}{
		{"terminal-bench 2", `schema_version = "1.1"
artifacts = []
[task]
name = "terminal-bench/fix-git"
description = ""
keywords = []
[[task.authors]]
name = "A"
email = "a@example.com"
[[task.authors]]
name = "B"
[metadata]
expert_time_estimate_min = 5.0
[verifier]
timeout_sec = 900.0
[agent]
timeout_sec = 900.0
[environment]
build_timeout_sec = 600.0
docker_image = "alexgshaw/fix-git:20251031"
cpus = 1
memory_mb = 2048
storage_mb = 10240
gpus = 0
allow_internet = true
mcp_servers = []
[verifier.env]
[environment.env]
[solution.env]
`, plain(func(c *Config) {
			c.Version = "1.1"
			c.Info = Info{Name: "terminal-bench/fix-git", Authors: []Author{{"A", "a@example.com"}, {Name: "B"}}}
			c.Metadata = map[string]any{"expert_time_estimate_min": 5.0}
			c.Verifier.TimeoutSec, c.Agent.TimeoutSec = 900, 900
			c.Environment.DockerImage = "alexgshaw/fix-git:20251031"
			c.Environment.MilliCPUs, c.Environment.Memory, c.Environment.Storage = 1000, 2<<30, 10<<30
			c.Environment.Explicit = ExplicitLimits{true, true, true}
		})},
		{"an older one, whose sizes are powers of 1024", "version = \"1.0\"\n[metadata]\nauthor_name = \"A\"\n[environment]\ncpus = 1\nmemory = \"2G\"\nstorage = \"1.5g\"\n",
			plain(func(c *Config) {
				c.Metadata = map[string]any{"author_name": "A"}
				c.Environment.MilliCPUs, c.Environment.Memory, c.Environment.Storage = 1000, 2<<30, 3<<29
				c.Environment.Explicit = ExplicitLimits{true, true, true}
			})},
		{"SWE-gen-JS", `version = "1.0"
[metadata]
difficulty = "medium"
[verifier]
timeout_sec = 600.0
[agent]
timeout_sec = 600.0
[environment]
build_timeout_sec = 1200.0
cpus = 2
memory_mb = 4096
storage_mb = 10240
gpus = 0
allow_internet = true
[verifier.env]
CI = "1"
[solution.env]
`, plain(func(c *Config) {
			c.Metadata = map[string]any{"difficulty": "medium"}
			c.Agent.TimeoutSec, c.Environment.BuildTimeoutSec = 600, 1200
			c.Environment.MilliCPUs, c.Environment.Memory, c.Environment.Storage = 2000, 4<<30, 10<<30
			c.Environment.Explicit = ExplicitLimits{true, true, true}
			c.Verifier.Env = map[string]string{"CI": "1"}
		})},
		{"schema 1.4 with everything", `schema_version = "1.4"
source = "made up"
artifacts = ["/app/out/", {source = "/etc/app.conf", destination = "config/app", exclude = ["*.bak"], service = "main"}]
[task]
name = "org/x"
version = "2"
description = "d"
authors = ["A"]
keywords = ["k"]
[agent]
user = "coder"
network_mode = "public"
[verifier]
user = 1000
environment_mode = "shared"
collect = []
env = {KEY = "v", NONE = "a $HOME b"}
[solution.env]
WAY = "short"
[environment]
os = "Linux"
cpus = 2
gpu_types = []
skills_dir = ""
workdir = "/app/"
network_mode = "public"
env = {A = "1"}
[environment.healthcheck]
command = "true"
interval_sec = 1
timeout_sec = 2.5
start_period_sec = 3
start_interval_sec = 0.5
retries = 7
`, plain(func(c *Config) {
			c.Version, c.Source = "1.4", "made up"
			c.Artifacts = []Artifact{{Source: "/app/out", Destination: "app/out"}, {"/etc/app.conf", "config/app", []string{"*.bak"}, "main"}}
			c.Info = Info{"org/x", "2", "d", []Author{{Name: "A"}}, []string{"k"}}
			c.Agent.User, c.Verifier.User = "coder", "1000"
			c.Verifier.Env = map[string]string{"KEY": "v", "NONE": "a $HOME b"}
			c.Solution.Env = map[string]string{"WAY": "short"}
			c.Environment.MilliCPUs, c.Environment.Explicit.CPUs = 2000, true
			c.Environment.WorkDir, c.Environment.Env = "/app", map[string]string{"A": "1"}
			c.Environment.Healthcheck = &Healthcheck{"true", 1, 2.5, 3, 0.5, 7}
		})},
		{"nothing at all has no limits", "version = \"1.0\"\n[environment.healthcheck]\ncommand = \"x\"\n", plain(func(c *Config) {
			c.Environment.Healthcheck = &Healthcheck{"x", 5, 30, 0, 5, 3}
		})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := loadWith(t, Options{Format: FormatHarbor}, map[string]string{"task.toml": tc.toml})
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
	c := Defaults(FormatHarbor)
	if c.Agent.TimeoutSec != 86400 || c.Environment.Memory != 0 || c.Environment.MilliCPUs != 0 || c.Environment.Storage != 0 {
		t.Errorf("the defaults are %+v", c)
	}
}

func TestSizeInBothForms(t *testing.T) {
	for _, tc := range []struct {
		format Format
		toml   string
		valid  bool
	}{
		{FormatHarbor, "memory = \"2G\"\nmemory_mb = 2048", true},
		{FormatHarbor, "memory = \"2G\"\nmemory_mb = 2000", false},
		{FormatRollout, "memory = \"2G\"\nmemory_mb = 2048", false},
	} {
		got := loadWith(t, Options{Format: tc.format}, map[string]string{"task.toml": "version = \"1.0\"\n[environment]\n" + tc.toml})
		if (got.Err() == nil) != tc.valid || tc.valid && got.Config.Environment.Memory != 2<<30 {
			t.Errorf("%s, %q: %v, %d bytes", tc.format, tc.toml, got.Err(), got.Config.Environment.Memory)
		}
	}
}

func TestSchemaRefusesWhatLoadRefuses(t *testing.T) {
	for _, toml := range []string{
		"[agent]\nuser = -1", "[verifier]\nuser = true", "[environment]\nworkdir = \"app\"", "[environment.healthcheck]\nretries = 1",
		"[environment.healthcheck]\ncommand = \" \"", "[environment.healthcheck]\ncommand = \"x\"\ninterval_sec = -1",
		"[environment.healthcheck]\ncommand = \"x\"\nretries = 0", "[environment.env]\nA = 1", "artifacts = [\"out\"]", "artifacts = [\"/\"]",
		"artifacts = [1]", "artifacts = [{}]", "artifacts = [{source = \"/a\", service = \"-db\"}]",
	} {
		toml = "version = \"1.0\"\n" + toml
		if checkSchema(t, toml) == nil {
			t.Errorf("the schema accepts %q", toml)
		}
		if loadWith(t, Options{}, map[string]string{"task.toml": toml}).Err() == nil {
			t.Errorf("Load accepts %q", toml)
		}
	}
}

func TestVariables(t *testing.T) {
	host := map[string]string{"KEY": "s3cret", "EMPTY": "", "AWS_SECRET_ACCESS_KEY": "theirs"}
	opts := Options{
		PassEnv: []string{"KEY", "EMPTY", "UNSET"},
		Getenv:  func(name string) (string, bool) { v, ok := host[name]; return v, ok },
	}
	for _, tc := range []struct{ name, value, want, problem string }{
		{"a literal", "a $HOME $$ {b}", "a $HOME $$ {b}", ""},
		{"a variable", "${KEY}", "s3cret", ""},
		{"variables inside text", "Bearer ${KEY}, ${KEY}", "Bearer s3cret, s3cret", ""},
		{"an escape", "$${KEY}", "${KEY}", ""},
		{"a default that is not needed", "${KEY:-x}", "s3cret", ""},
		{"a default for what is unset", "${UNSET:-x}", "x", ""},
		{"a default for what is empty", "${EMPTY:-x}", "x", ""},
		{"an empty default", "${UNSET:-}", "", ""},
		{"a default with braces", `${UNSET:-{"a": {}}}`, `{"a": {}}`, ""},
		{"an empty variable", "${EMPTY}", "", ""},
		{"an unset variable", "${UNSET}", "", `"verifier.env.V" needs the host's variable UNSET, which is not set (export it, put it into a file for --env-file, or give a default in task.toml: ${UNSET:-…})`},
		{"a variable that the job does not pass on", "${AWS_SECRET_ACCESS_KEY}", "",
			`"verifier.env.V" needs the host's variable AWS_SECRET_ACCESS_KEY, which the job does not pass on (if the task may have it, set environment.pass_env: [AWS_SECRET_ACCESS_KEY] in the job)`},
		{"a variable that the job does not pass on, inside text", "x${AWS_SECRET_ACCESS_KEY}", "x", `"verifier.env.V" needs the host's variable AWS_SECRET_ACCESS_KEY`},
		{"a default for a variable that the job does not pass on", "${AWS_SECRET_ACCESS_KEY:-none}", "none",
			`warning: "verifier.env.V" uses its default: the job does not pass on the host's variable AWS_SECRET_ACCESS_KEY`},
		{"a default for a variable that is not set", "${NOBODY:-none}", "none", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			task := loadWith(t, opts, map[string]string{"task.toml": "version = \"1.0\"\n[verifier.env]\nV = '" + tc.value + "'\n"})
			problems := task.Problems.Error()
			if tc.problem == "" && problems != "" || !strings.Contains(problems, tc.problem) {
				t.Errorf("problems %q, want %q", problems, tc.problem)
			}
			if strings.Contains(problems, "s3cret") || strings.Contains(problems, "theirs") {
				t.Error("a message contains the value")
			}
			if got := task.VerifierEnv()["V"]; got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if got := task.Config.Verifier.Env["V"]; got != tc.value {
				t.Errorf("the configuration has %q", got)
			}
		})
	}
	t.Run("without a job no variable is passed on", func(t *testing.T) {
		task := loadWith(t, Options{}, map[string]string{"task.toml": "version = \"1.0\"\nenvironment.env.A = \"${KEY}\""})
		if !strings.Contains(task.Problems.Error(), "does not pass on") {
			t.Errorf("problems: %v", task.Problems)
		}
	})
	t.Run("a missing variable of the solution is not a problem of the task", func(t *testing.T) {
		task := loadWith(t, opts, map[string]string{"task.toml": "version = \"1.0\"\nsolution.env.A = \"${UNSET}\"\nsolution.env.B = \"${KEY}\""})
		if len(task.Problems) > 0 || !strings.Contains(task.SolutionProblems().Error(), "task.toml:2:14: \"solution.env.A\" needs") {
			t.Errorf("problems: %v; of the solution: %v", task.Problems, task.SolutionProblems())
		}
		if task.SolutionEnv()["B"] != "s3cret" {
			t.Errorf("variables: %v", task.SolutionEnv())
		}
	})
}

func TestFormatIsPartOfTheDigest(t *testing.T) {
	dir := newTask(t, nil)
	load := func(f Format) *Task { return (&Loader{Options: Options{Format: f}}).Load(dir) }
	usual, harbor := load(""), load(FormatHarbor)
	if usual.Format != FormatRollout || usual.Digest() != load(FormatRollout).Digest() {
		t.Error("no format differs from the default")
	}
	if usual.Digest() == harbor.Digest() || harbor.Digest() == "" {
		t.Error("another format has the same digest")
	}
}

func TestInstructionLeavesOutCanaries(t *testing.T) {
	const text = "<!-- harbor-canary GUID 1 -->\r\n# Canary GUID 2\n\n\nDo it.\n# canary 3\n"
	for _, tc := range []struct {
		name   string
		format Format
		text   string
		want   string
	}{
		{"leading ones are left out", FormatHarbor, text, "Do it.\n# canary 3\n"},
		{"not in other formats", FormatRollout, text, text},
		{"headings stay", FormatHarbor, "# Birds\n\nDo it.", "# Birds\n\nDo it."},
		{"only a canary", FormatHarbor, "<!-- canary -->", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			task := loadWith(t, Options{Format: tc.format}, map[string]string{"instruction.md": tc.text})
			if got, err := task.Instruction(); string(got) != tc.want || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestStepsThatTheTaskDoesNotNameHaveNoEffect(t *testing.T) {
	task := loadWith(t, Options{Format: FormatHarbor}, map[string]string{"steps/one/instruction.md": "x"})
	if text := task.Problems.Error(); task.Err() != nil || !strings.Contains(text, filepath.Join("steps", "one", "instruction.md")+": warning: has no effect") {
		t.Errorf("problems: %s", text)
	}
}

// Harbor refuses a task whose test.sh is excluded, and fails when it runs such a solve.sh.
func TestFilesThatHarborLeavesOut(t *testing.T) {
	harbor := Options{Format: FormatHarbor}
	list := func(get func() (fs.FS, error)) string {
		files, err := get()
		must(t, err)
		var names []string
		must(t, fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
			if !d.IsDir() {
				names = append(names, name)
			}
			return err
		}))
		return strings.Join(names, " ")
	}
	files := map[string]string{
		"tests/.harborignore": "*.log\n", "tests/a.log": "x", "tests/data/b.log": "x", "tests/data/c": "x",
		"solution/.harborignore": "notes\n", "solution/notes": "x", "environment/a.log": "x",
	}
	task := loadWith(t, harbor, files)
	must(t, task.Err())
	if got := list(task.Tests); got != "data/c test.sh" {
		t.Errorf("the tests are %s", got)
	}
	if got := list(task.Solution); got != "solve.sh" {
		t.Errorf("the solution is %s", got)
	}
	if got := list(task.Environment); got != "Dockerfile a.log" {
		t.Errorf("the image's files are %s", got)
	}
	if got := list(loadWith(t, Options{}, files).Tests); got != ".harborignore a.log data/b.log data/c test.sh" {
		t.Errorf("in the other format, the tests are %s", got)
	}

	for name, tc := range map[string]struct {
		files map[string]string
		want  string // the problem
	}{
		"test.sh":                             {map[string]string{"tests/.harborignore": "*.sh\n"}, "tests/test.sh: is left out: .harborignore excludes it"},
		"a pattern without a fixed meaning":   {map[string]string{"tests/.harborignore": "[a\n"}, "tests/.harborignore has the pattern"},
		"such a pattern in the solution":      {map[string]string{"solution/.harborignore": "[a\n"}, "solution/.harborignore has the pattern"},
		"a step's test.sh, before the task's": {map[string]string{"task.toml": "[[steps]]\nname = \"one\"\n", "steps/one/instruction.md": "x", "steps/one/tests/test.sh": "x", "steps/one/tests/.harborignore": "*.sh\n"}, "steps/one/tests/test.sh: is left out"},
		"the task's, of a step without one":   {map[string]string{"task.toml": "[[steps]]\nname = \"one\"\n", "steps/one/instruction.md": "x", "tests/.harborignore": "*.sh\n"}, "tests/test.sh: is left out"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := loadWith(t, harbor, tc.files).Err(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Error(err)
			}
		})
	}
	linked := newTask(t, map[string]string{"tests/.harborignore": "out\n"})
	must(t, os.Symlink("/etc/passwd", filepath.Join(linked, "tests/out")))
	must(t, (&Loader{Options: harbor}).Load(linked).Err())
	for _, files := range []map[string]string{
		{"solution/.harborignore": "*\n"},
		{"task.toml": "[[steps]]\nname = \"one\"\n", "steps/one/instruction.md": "x", "steps/one/solution/solve.sh": "x", "steps/one/solution/.harborignore": "*\n"},
	} {
		if task := loadWith(t, harbor, files); task.HasSolution() || task.Err() != nil {
			t.Errorf("a solve.sh that is left out: %t, %v", task.HasSolution(), task.Err())
		}
	}
}
