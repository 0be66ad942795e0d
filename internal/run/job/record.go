package job

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/trial"
	"github.com/org/rollout-action/internal/run/trial/agentfiles"
)

// RecordOptions holds the parts of a plan other than its trials.
type RecordOptions struct {
	StartedAt time.Time
	Commit    *string  // of the job file's repository; nil outside git
	Parents   []string // of Commit; nil if they are not known
	Dir       string   // the current directory, absolute: paths of tasks outside git are relative to it
	// Shard and ShardOf are as in result.Plan: nil and empty for a job that is run whole.
	Shard   *result.Shard
	ShardOf []int
	// PathsFrom is as in result.Plan.
	PathsFrom   string
	JobFile     string // as in result.Plan
	JobFlags    bool   // as in result.Plan
	Compared    bool   // as in result.Plan
	ProvesTasks bool   // as in result.Plan
	Reverifies  string
	OnlyJudges  bool
	Beside      *result.Beside
	NamedAs     string // as in result.Plan
	Rollout     string // Plan.RolloutVersion
	NotAffected *result.NotAffected
	NotSelected *result.NotSelected
	Rounds      *result.Rounds
}

// Record returns the plan of a job as it is written to disk. It reads every file of every task for
// the tasks' digests. It fails if this machine cannot read one.
func Record(cfg config.Job, specs []trial.Spec, opts RecordOptions) (result.Plan, error) {
	plan := result.Plan{
		JobName: cfg.Name, StartedAt: result.Stamp(opts.StartedAt), Commit: opts.Commit, Parents: opts.Parents, Shard: opts.Shard,
		Metrics: []string{}, Agents: plannedAgents(specs), Tasks: plannedTasks(specs, opts.Dir), Trials: result.KeysOf(Keys(specs)...), ShardOf: opts.ShardOf, PathsFrom: opts.PathsFrom, JobFile: opts.JobFile, JobFlags: opts.JobFlags,
		Compared: opts.Compared, ProvesTasks: opts.ProvesTasks, Reverifies: opts.Reverifies, OnlyJudges: opts.OnlyJudges, Beside: opts.Beside, NamedAs: opts.NamedAs, RolloutVersion: opts.Rollout,
		NotAffected: opts.NotAffected, NotSelected: opts.NotSelected, Rounds: opts.Rounds,
	}
	for _, m := range cfg.Metrics {
		plan.Metrics = append(plan.Metrics, m.Type)
	}
	digest, err := planDigest(cfg, plan)
	if err != nil {
		return plan, fmt.Errorf("make the plan's digest: %w", err)
	}
	plan.Digest = digest
	for _, s := range specs {
		if err := s.Task.ReadError(); err != nil {
			return plan, fmt.Errorf("read the task %s: %w", s.Task.Place(), err)
		}
	}
	if opts.Shard != nil {
		plan.Split, plan.Checksums = splitDigest(opts.Shard.Total, opts.ShardOf), true
	}
	return plan, nil
}

// maxSums limits the files of an agent that a plan names. Agents that bring their dependencies
// along have many thousands.
const maxSums = 1000

// plannedAgents returns the agents of the specs and their judges that have files, each once, sorted
// by name.
func plannedAgents(specs []trial.Spec) []result.PlannedAgent {
	files := map[string]*agentfiles.Set{}
	for _, s := range specs {
		if s.Files != nil {
			files[s.Key.Agent] = s.Files
		}
		for _, j := range slices.Concat(s.Judges, s.GroupJudges) {
			if j.Files != nil {
				files[j.Agent.Name] = j.Files
			}
		}
	}
	var planned []result.PlannedAgent
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f := files[name]
		planned = append(planned, result.PlannedAgent{Agent: name, Files: f.Digest, Count: f.Files, Bytes: f.Bytes, Sums: f.Sums(maxSums)})
	}
	return planned
}

// plannedTasks returns the tasks of the specs, each once, sorted by dataset and name.
func plannedTasks(specs []trial.Spec, dir string) []result.PlannedTask {
	type name struct{ dataset, task string }
	tasks := map[name]*task.Task{}
	for _, s := range specs {
		tasks[name{s.Key.Dataset, s.Key.Task}] = s.Task
	}
	planned := make([]result.PlannedTask, 0, len(tasks))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for n, t := range tasks {
		p := result.PlannedTask{Dataset: n.dataset, Task: n.task, Format: trial.FormatOf(t), Path: repoPath(t, dir)}
		if t.Origin != nil {
			p.GitURL, p.GitCommitID, p.GitPath = t.Origin.URL, t.Origin.Commit, t.Origin.Path
		}
		planned = append(planned, p)
		group.Go(func() error {
			t.Digest() // the task keeps it
			return nil
		})
	}
	_ = group.Wait() // the functions return nil
	for i, p := range planned {
		planned[i].Digest = tasks[name{p.Dataset, p.Task}].Digest()
	}
	slices.SortFunc(planned, func(a, b result.PlannedTask) int {
		return cmp.Or(cmp.Compare(a.Dataset, b.Dataset), cmp.Compare(a.Task, b.Task))
	})
	return planned
}

// repoPath returns the path of a task in its repository, or below dir if it is in none; "" if it is
// elsewhere.
func repoPath(t *task.Task, dir string) string {
	if t.Origin != nil {
		return "" // it is in another repository
	}
	if t.RepoPath != "" {
		return t.RepoPath
	}
	below, err := filepath.Rel(dir, t.Dir)
	if err != nil || below == ".." || strings.HasPrefix(below, ".."+string(filepath.Separator)) {
		return ""
	}
	return filepath.ToSlash(below)
}

// planDigest returns the result.Plan.Digest of a plan.
func planDigest(cfg config.Job, plan result.Plan) (string, error) {
	cfg = config.Experiment(cfg, config.ForResume)
	sum := sha256.New()
	if err := json.NewEncoder(sum).Encode(cfg); err != nil {
		return "", err
	}
	// Quoted, so that no name can look like two. Encoding this as JSON would take most of the time
	// that planning takes.
	var line []byte
	write := func(word string, number int, texts ...string) {
		line = strconv.AppendInt(append(append(line[:0], word...), ' '), int64(number), 10)
		for _, s := range texts {
			line = strconv.AppendQuote(append(line, ' '), s)
		}
		sum.Write(append(line, '\n'))
	}
	for i, a := range plan.Agents {
		write("agent", i, a.Agent, a.Files)
	}
	for i, t := range plan.Tasks {
		write("task", i, t.Dataset, t.Task, t.Digest)
	}
	for _, k := range plan.Trials.All() {
		write("trial", k.Attempt, k.Agent, k.Dataset, k.Task)
	}
	return digestOf(sum), nil
}

// splitDigest returns the result.Plan.Split of a division into shards. It is no part of the plan's
// digest, so that merged shards have the same digest as the job run on one machine.
func splitDigest(total int, shardOf []int) string {
	sum := sha256.New()
	fmt.Fprintln(sum, total, shardOf)
	return digestOf(sum)
}

func digestOf(sum hash.Hash) string { return "sha256:" + hex.EncodeToString(sum.Sum(nil)) }
