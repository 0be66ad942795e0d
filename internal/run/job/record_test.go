package job

import (
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/trial"
	"github.com/org/rollout-action/internal/run/trial/agentfiles"
	"github.com/org/rollout-action/internal/run/trial/judging"
)

// recorded returns the plan of a small job at a directory, after a change to it.
func recorded(t *testing.T, dir string, change func(cfg *config.Job, specs []trial.Spec, opts *RecordOptions)) result.Plan {
	t.Helper()
	cfg := config.Job{Name: "j", JobsDir: "jobs", NAttempts: 2, Metrics: []config.Metric{{Type: "mean"}}, Datasets: []config.Dataset{{Path: dir, Name: "d"}}}
	var specs []trial.Spec
	for _, name := range []string{"a", "b"} {
		made := &task.Task{Name: name, Dir: dir + "/" + name, FS: fstest.MapFS{"instruction.md": {Data: []byte("do " + name)}}}
		for n := 1; n <= 2; n++ {
			specs = append(specs, trial.Spec{Key: result.Key{Agent: "x", Dataset: "d", Task: name, Attempt: n}, Task: made})
		}
	}
	opts := RecordOptions{StartedAt: time.Unix(1e9, 0), Dir: "/work"}
	if change != nil {
		change(&cfg, specs, &opts)
	}
	plan, err := Record(cfg, specs, opts)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func TestRecordDescribesTheJob(t *testing.T) {
	plan := recorded(t, "/work/evals", nil)
	if plan.Trials.Len() != 4 || !reflect.DeepEqual(plan.Metrics, []string{"mean"}) || plan.JobName != "j" {
		t.Errorf("got %+v", plan)
	}
	for i, name := range []string{"a", "b"} {
		if got := plan.Tasks[i]; got.Task != name || got.Path != "evals/"+name || !strings.HasPrefix(got.Digest, "sha256:") {
			t.Errorf("task %d is %+v", i, got)
		}
	}
	if plan.Tasks[0].Digest == plan.Tasks[1].Digest {
		t.Error("two tasks have one digest")
	}
	if got := recorded(t, "/elsewhere", nil).Tasks[0].Path; got != "" {
		t.Errorf("a task that is not below the directory has the path %q", got)
	}
}

func TestPlansOfTheSameWorkHaveTheSameDigest(t *testing.T) {
	original := recorded(t, "/work/evals", nil).Digest
	if want := "sha256:959657a3a463587a6dac77924518c695d358996bfde1e0c8af61c7f8c722e3de"; original != want { // jobs without judges have that of versions that knew none
		t.Errorf("the digest is %s, not %s", original, want)
	}
	type change = func(cfg *config.Job, specs []trial.Spec, opts *RecordOptions)
	same := map[string]change{
		"another name":      func(cfg *config.Job, _ []trial.Spec, _ *RecordOptions) { cfg.Name = "k" },
		"another directory": func(cfg *config.Job, _ []trial.Spec, _ *RecordOptions) { cfg.JobsDir = "/other" },
		"more at a time":    func(cfg *config.Job, _ []trial.Spec, _ *RecordOptions) { cfg.NConcurrentTrials = 64 },
		"another gate":      func(cfg *config.Job, _ []trial.Spec, _ *RecordOptions) { cfg.Gate = gate.Policy{Confidence: 0.5} },
		"another time":      func(_ *config.Job, _ []trial.Spec, opts *RecordOptions) { opts.StartedAt = time.Unix(2e9, 0) },
		"another machine": func(cfg *config.Job, _ []trial.Spec, opts *RecordOptions) {
			opts.Dir = "/home"
			cfg.Datasets[0].Path = "/home/evals"
		},
		"a commit for others": func(_ *config.Job, _ []trial.Spec, opts *RecordOptions) { opts.Commit = new("abc") },
	}
	for name, do := range same {
		if got := recorded(t, "/work/evals", do).Digest; got != original {
			t.Errorf("%s gives another digest", name)
		}
	}
	seen := map[string]string{original: "the original"}
	for name, do := range map[string]change{
		"another timeout":  func(cfg *config.Job, _ []trial.Spec, _ *RecordOptions) { cfg.TimeoutMultiplier = 2 },
		"another provider": func(cfg *config.Job, _ []trial.Spec, _ *RecordOptions) { cfg.Environment.Type = "fake" },
		"another instruction": func(_ *config.Job, specs []trial.Spec, _ *RecordOptions) {
			specs[0].Task.FS = fstest.MapFS{"instruction.md": {}}
		},
		"a judge": func(cfg *config.Job, _ []trial.Spec, _ *RecordOptions) { cfg.Judges = []judge.Spec{{Name: "quality"}} },
		"another prompt of it": func(cfg *config.Job, _ []trial.Spec, _ *RecordOptions) {
			cfg.Judges = []judge.Spec{{Name: "quality", Prompt: "x"}}
		},
		"an agent that judges": func(cfg *config.Job, _ []trial.Spec, _ *RecordOptions) {
			cfg.JudgeAgents = []agent.Agent{{Name: "reviewer"}}
		},
		"files of an agent that judges": func(_ *config.Job, specs []trial.Spec, _ *RecordOptions) {
			specs[0].Judges = []judging.Judge{{Agent: agent.Agent{Name: "reviewer"}, Files: &agentfiles.Set{Digest: "sha256:1"}}}
		},
		"a reward":            func(cfg *config.Job, _ []trial.Spec, _ *RecordOptions) { cfg.Reward = "tests" },
		"another attempt":     func(_ *config.Job, specs []trial.Spec, _ *RecordOptions) { specs[3].Key.Attempt = 3 },
		"another name of one": func(_ *config.Job, specs []trial.Spec, _ *RecordOptions) { specs[3].Key.Agent = "y" },
	} {
		got := recorded(t, "/work/evals", do).Digest
		if other, taken := seen[got]; taken {
			t.Errorf("%s has the digest of %s", name, other)
		}
		seen[got] = name
	}
}

func TestShardHasTheDigestOfTheJobAndOfItsSplit(t *testing.T) {
	split := func(index int, of ...int) result.Plan {
		return recorded(t, "/work/evals", func(_ *config.Job, _ []trial.Spec, opts *RecordOptions) {
			opts.Shard, opts.ShardOf = &result.Shard{Index: index, Total: 2}, of
		})
	}
	whole, one, two, other := recorded(t, "/work/evals", nil), split(1, 1, 1, 2, 2), split(2, 1, 1, 2, 2), split(1, 1, 2, 1, 2)
	for _, shard := range []result.Plan{one, two, other} {
		if shard.Digest != whole.Digest {
			t.Errorf("shard %s has another digest than the job that is run whole", shard.Shard)
		}
	}
	if whole.Split != "" || one.Split == "" || one.Split != two.Split || one.Split == other.Split {
		t.Errorf("the digests of splits: none %q, one %q and %q, another %q", whole.Split, one.Split, two.Split, other.Split)
	}
	if one.Own().Len() != 2 || two.Own().Len() != 2 {
		t.Errorf("the shards own %d and %d trials", one.Own().Len(), two.Own().Len())
	}
}
