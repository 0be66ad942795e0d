package config_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/config"
)

const overridden = `
n_attempts: 0
environment: {override_memory: 2G}
agents:
  - {name: first, execute: echo, env: {A: "1", KEY: "${API_KEY}"}}
  - {name: second, execute: echo, env: {B: "${NOT_SET}"}}
datasets: [{path: dataset}]
`

// load loads content from standard input with flags; each of sets is a --set.
func load(t *testing.T, content string, only []string, sets ...string) (*config.Loaded, string, error) {
	t.Helper()
	dir := directory(t, nil)
	opts := options(dir)
	opts.Stdin = strings.NewReader(content)
	opts.OnlyAgents = only
	for _, set := range sets {
		path, value, _ := strings.Cut(set, "=")
		opts.Overrides = append(opts.Overrides, config.Override{Path: path, Value: value, Origin: "--set " + set})
	}
	loaded, err := config.Load("-", opts)
	return loaded, dir, err
}

func TestOverridesWinOverTheFile(t *testing.T) {
	sets := []string{"n_attempts=3", "agents.1.env.B=b"}
	tests := map[string]struct {
		set  string
		got  func(*config.Loaded) any
		want any
	}{
		"a number":                              {"n_concurrent_trials=9", func(l *config.Loaded) any { return l.Job.NConcurrentTrials }, 9},
		"a key in a missing mapping":            {"verifier.disable=true", func(l *config.Loaded) any { return l.Job.Verifier.Disable }, true},
		"text that looks like a number":         {"name=2026", func(l *config.Loaded) any { return l.Job.Name }, "2026"},
		"text in quotes":                        {`name="2026"`, func(l *config.Loaded) any { return l.Job.Name }, "2026"},
		"a glob that is an alias in YAML":       {"include_tasks.0=*slow", func(l *config.Loaded) any { return l.Job.IncludeTasks }, []string{"*slow"}},
		"a list":                                {"include_tasks=[a*, 7]", func(l *config.Loaded) any { return l.Job.IncludeTasks }, []string{"a*", "7"}},
		"an entry after the last":               {"agents.2={name: third, execute: echo}", func(l *config.Loaded) any { return l.Job.Agents[2].Name }, "third"},
		"an entry of a list that is missing":    {"metrics.0.type=max", func(l *config.Loaded) any { return l.Job.Metrics[0].Type }, "max"},
		"a variable, as it was typed":           {"agents.0.env.A=0x10", func(l *config.Loaded) any { return l.Env["first"]["A"] }, "0x10"},
		"a variable that is a mapping in YAML":  {"agents.0.env.A={a: 1}", func(l *config.Loaded) any { return l.Env["first"]["A"] }, "{a: 1}"},
		"an empty variable":                     {"agents.0.env.A=", func(l *config.Loaded) any { return l.Env["first"]["A"] }, ""},
		"a placeholder":                         {"agents.0.env.A=${MODEL}", func(l *config.Loaded) any { return l.Env["first"]["A"] }, "model-1"},
		"an empty value restores the default":   {"environment.override_memory=", func(l *config.Loaded) any { return l.Job.Environment.OverrideMemory == nil }, true},
		"another spelling of what the file has": {"environment.override_memory_mb=512", func(l *config.Loaded) any { return *l.Job.Environment.OverrideMemory }, config.Bytes(512 << 20)},
		"a provider's setting":                  {"environment.provider_config.mounts.0={source: /a, target: /b}", func(l *config.Loaded) any { return len(l.Job.Environment.ProviderConfig["mounts"].([]any)) }, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			loaded, _, err := load(t, overridden, nil, append(sets, tt.set)...)
			if err != nil {
				t.Fatal(err)
			}
			if got := tt.got(loaded); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %#v, want %#v", got, tt.want)
			}
		})
	}
}

func TestFlagWinsOverTheOtherFormOfAnAmount(t *testing.T) {
	file := strings.Replace(overridden, "override_memory: 2G", "override_memory_mb: 512", 1)
	loaded, _, err := load(t, file, nil, "n_attempts=1", "agents.1.env.B=b", "environment.override_memory=1Gi")
	if err != nil {
		t.Fatal(err)
	}
	if got := *loaded.Job.Environment.OverrideMemory; got != 1<<30 {
		t.Errorf("override_memory = %d", got)
	}
}

func TestInvalidOverrides(t *testing.T) {
	sets := []string{"n_attempts=1", "agents.1.env.B=b"}
	tests := map[string]struct {
		set  string
		want []string
	}{
		"an unknown key": {"environment.override_cpu=2", []string{
			`--set environment.override_cpu=2: unknown key "override_cpu" in environment (did you mean "override_cpus"?)`}},
		"a value of the wrong type": {"n_attempts=many", []string{
			`--set n_attempts=many: n_attempts must be a whole number, not the text "many"`}},
		"a value out of range": {"n_attempts=-1", []string{
			`--set n_attempts=-1: n_attempts must be at least 1, not -1`}},
		"an unclosed list": {"metrics=[a", []string{
			`--set metrics=[a: not valid YAML: did not find expected ',' or ']'`}},
		"text that is no YAML stands for itself": {"name=*x of @y", []string{
			`--set name=*x of @y: name "*x of @y" cannot be the name of a directory (write "-x of @y")`}},
		"an entry beyond the end": {"agents.7.name=x", []string{
			`--set agents.7.name=x: agents has no entry "7": it has 2, counted from 0`}},
		"a list without an index": {"agents.first.name=x", []string{
			`--set agents.first.name=x: agents has no entry "first": it has 2, counted from 0`}},
		"a key below text": {"agents.0.name.x=1", []string{
			`--set agents.0.name.x=1: agents[0].name is the text "first" and has no key "x"`}},
		"an empty key": {"environment..x=1", []string{
			`--set environment..x=1: the path has an empty key in environment (write key=value, with dots between keys)`}},
		"a setting that the provider does not have": {"environment.provider_config.netwrok=x", []string{
			`--set environment.provider_config.netwrok=x: unknown key "netwrok" in environment.provider_config (did you mean "network"?)`}},
		"a setting that the provider refuses": {"environment.provider_config.privileged=true", []string{
			`--set environment.provider_config.privileged=true: environment.provider_config.privileged: is refused (remove it)`,
			`--set environment.provider_config.privileged=true: environment.provider_config: is odd as a whole`}},
		"both spellings by flag": {"environment={override_memory: 1Gi, override_memory_mb: 5}", []string{
			`--set environment={override_memory: 1Gi, override_memory_mb: 5}: environment.override_memory and override_memory_mb are the same setting (keep one of them)`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, dir, err := load(t, overridden, nil, append(sets, tt.set)...)
			wantProblems(t, err, dir, tt.want...)
		})
	}
}

func TestOverridesNeedAMapping(t *testing.T) {
	_, dir, err := load(t, "[a, b]", nil, "n_attempts=1")
	wantProblems(t, err, dir, "<stdin>:1:1: a job file must be a mapping, not a list (rollout init makes an example)")
}

func TestOnlyAgentsSelects(t *testing.T) {
	tests := map[string]struct {
		only, want []string
	}{
		"the variables of the others need not be set": {[]string{"first"}, []string{"first"}},
		"the file's order is kept":                    {[]string{"oracle", "first"}, []string{"first", "oracle"}},
		"built-in agents need not be listed":          {[]string{"nop", "oracle"}, []string{"nop", "oracle"}},
		"naming one twice keeps it once":              {[]string{"first", "nop", "first", "nop"}, []string{"first", "nop"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			loaded, _, err := load(t, overridden, tt.only, "n_attempts=1")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, a := range loaded.Job.Agents {
				got = append(got, a.Name)
				if loaded.Env[a.Name] == nil {
					t.Errorf("%s has no variables", a.Name)
				}
			}
			if !reflect.DeepEqual(got, tt.want) || len(loaded.Env) != len(got) {
				t.Errorf("got %q with variables %v, want %q", got, loaded.Env, tt.want)
			}
		})
	}
}

func TestUnknownAgentsAreReported(t *testing.T) {
	_, dir, err := load(t, overridden, []string{"frist", "gpt"}, "n_attempts=1")
	wantProblems(t, err, dir,
		`<stdin>: there is no agent "frist" to run (did you mean "first"? there are: first, nop, oracle, second)`,
		`<stdin>: there is no agent "gpt" to run (there are: first, nop, oracle, second)`)
}

func TestBuiltInAgentsNeedNoList(t *testing.T) {
	loaded, _, err := load(t, "datasets: [{path: dataset}]", []string{"oracle"})
	if err != nil {
		t.Fatal(err)
	}
	if len(loaded.Job.Agents) != 1 || loaded.Job.Agents[0].Name != "oracle" {
		t.Errorf("agents: %v", loaded.Job.Agents)
	}
}

func TestPassedVariablesAreSecret(t *testing.T) {
	loaded, _, err := load(t, "environment: {pass_env: [API_KEY, MODEL, NOT_SET, EMPTY]}\nredact: {except: [MODEL]}\n"+minimal, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"sk-123456"}; !reflect.DeepEqual(loaded.Secrets, want) {
		t.Errorf("got %q, want %q", loaded.Secrets, want)
	}
}

func TestValuesOfTheHostAreSecret(t *testing.T) {
	loaded, _, err := load(t, `
agents:
  - name: a
    execute: echo
    env: {A: "x${API_KEY}y", B: "${API_KEY}", C: "${MODEL}", D: literal-value, E: "${NOT_SET:-default-value}", F: "${EMPTY}"}
redact: {except: [MODEL]}
datasets: [{path: dataset}]
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"sk-123456"}; !reflect.DeepEqual(loaded.Secrets, want) {
		t.Errorf("got %q, want %q", loaded.Secrets, want)
	}
	if got := loaded.Job.Agents[0].Env["A"]; got != "x${API_KEY}y" {
		t.Errorf("the job holds %q instead of the placeholder", got)
	}
}
