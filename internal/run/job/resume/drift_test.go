package resume

import (
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/result"
)

func TestDriftNamesTheKey(t *testing.T) {
	long := strings.Repeat("echo a line of a script\n", 5)
	base := func() config.Job {
		return config.Job{Name: "j", NAttempts: 2, TimeoutMultiplier: 1, Agents: []agent.Agent{
			{Name: "a", Execute: long, Env: map[string]string{"KEY": "${KEY}", "PLAIN": "hunter2hunter2"}}, {Name: "b", Execute: "true"},
		}, Datasets: []config.Dataset{{Path: "evals", Name: "d"}}}
	}
	for name, test := range map[string]struct {
		change func(cfg *config.Job)
		want   []string
	}{
		"what only says how it is run": {func(cfg *config.Job) {
			cfg.Name, cfg.JobsDir, cfg.NConcurrentTrials, cfg.LogLevel = "k", "elsewhere", 9, "debug"
			cfg.Retry.MaxAttempts, cfg.Environment.PreserveEnv, cfg.MaxStreamSize = 7, config.PreserveAlways, 5
			cfg.Metrics, cfg.Datasets[0].Path = []config.Metric{{Type: "sum"}}, "moved/evals"
			cfg.Redact.Except = []string{"X"}
			cfg.Agents[0].Description = "better words"
		}, nil},
		"another order": {func(cfg *config.Job) { slices.Reverse(cfg.Agents) }, nil},
		"values":        {func(cfg *config.Job) { cfg.TimeoutMultiplier, cfg.Environment.Type = 2, "fake" }, []string{`environment.type: was not set, is "fake"`, "timeout_multiplier: was 1, is 2"}},
		"a script":      {func(cfg *config.Job) { cfg.Agents[0].Execute = long + "x" }, []string{"agents.a.execute: differs from line 6 on"}},
		"a new script":  {func(cfg *config.Job) { cfg.Agents[1].Install = long }, []string{"agents.b.install: was not set, is a text of 5 lines"}},
		"a variable's source": {func(cfg *config.Job) { cfg.Agents[0].Env["KEY"] = "${OTHER}" },
			[]string{"agents.a.env.KEY: was ${KEY}, is ${OTHER}"}},
		"a variable's value": {func(cfg *config.Job) { cfg.Agents[0].Env["PLAIN"] = "hunter3hunter3" },
			[]string{"agents.a.env.PLAIN: was a value that is not shown, is a value that is not shown"}},
		"agents":             {func(cfg *config.Job) { cfg.Agents[1].Name = "c" }, []string{"agents.b: is gone", "agents.c: is new"}},
		"a built-in agent":   {func(cfg *config.Job) { cfg.Agents = append(cfg.Agents, agent.Agent{Name: agent.Oracle}) }, []string{"agents.oracle: is new"}},
		"a dataset's format": {func(cfg *config.Job) { cfg.Datasets[0].Format = config.FormatHarbor }, []string{`datasets.d.format: was not set, is "harbor"`}},
		"the tasks' format":  {func(cfg *config.Job) { cfg.Tasks, cfg.TasksFormat = []string{"t"}, config.FormatHarbor }, []string{`tasks_format: was not set, is "harbor"`}},
		"no task's format":   {func(cfg *config.Job) { cfg.TasksFormat = config.FormatHarbor }, nil},
		"a filter":           {func(cfg *config.Job) { cfg.IncludeTasks = []string{"x*"} }, []string{`include_tasks: was not set, is ["x*"]`}},
	} {
		t.Run(name, func(t *testing.T) {
			now := base()
			now.Agents[0].Env = map[string]string{"KEY": "${KEY}", "PLAIN": "hunter2hunter2"}
			test.change(&now)
			changes, err := drift(base(), result.Plan{Trials: result.KeysOf(result.Key{Attempt: 2})}, now, result.Plan{Trials: result.KeysOf(result.Key{Attempt: 2})})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range changes {
				got = append(got, c.Key+": "+c.Message)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestDriftNamesTheTasks(t *testing.T) {
	before := []result.PlannedTask{{Dataset: "d", Task: "gone", Digest: "sha256:0"}, {Dataset: "d", Task: "mended", Digest: "sha256:1"}, {Dataset: "d", Task: "same", Digest: "sha256:2"}}
	now := []result.PlannedTask{{Dataset: "d", Task: "mended", Digest: "sha256:3"}, {Dataset: "d", Task: "new", Digest: "sha256:4"}, {Dataset: "d", Task: "same", Digest: "sha256:2"}}
	changes, err := drift(config.Job{}, result.Plan{Tasks: before}, config.Job{}, result.Plan{Tasks: now})
	want := []Change{{Message: "task d/mended has other files: the digest was sha256:1, is sha256:3"}, {Message: "task d/new is new"}, {Message: "task d/gone is gone"}}
	if err != nil || !slices.Equal(changes, want) {
		t.Errorf("got %q, %v, want %q", changes, err, want)
	}
}
