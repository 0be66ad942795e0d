package jobtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing/fstest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/trial"
)

// Size is the size of a large job.
type Size struct{ Tasks, Agents, Attempts, Shards int }

// Trials returns the number of trials of the job.
func (s Size) Trials() int { return s.Tasks * s.Agents * s.Attempts }

// WriteShards writes the directories of the shards of a large job below dir, and returns the number
// of its trials: two agents, so many tasks, five attempts. See Size.Write.
func WriteShards(dir string, tasks, shards int) (trials int, err error) {
	size := Size{tasks, 2, 5, shards}
	return size.Trials(), size.Write(dir)
}

// Write writes the directories of the shards of a job of this size below dir. Each trial has a
// result with all usual fields, an empty log, two events and an output. Nothing is synced to disk.
func (s Size) Write(dir string) error {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	policy, err := config.Policy(result.ConfigFile, nil, nil)
	if err != nil {
		return err
	}
	cfg := config.Job{Name: "large", NAttempts: s.Attempts, Gate: policy}
	var specs []trial.Spec
	for n := range s.Tasks {
		made := &task.Task{Name: fmt.Sprintf("a-task-with-a-name-%05d", n), FS: fstest.MapFS{"instruction.md": {Data: []byte(strings.Repeat(fmt.Sprint("Do ", n, ". "), 30))}}}
		for agent := range s.Agents {
			for attempt := 1; attempt <= s.Attempts; attempt++ {
				specs = append(specs, trial.Spec{Key: result.Key{Agent: fmt.Sprint("agent-", agent+1), Dataset: "large", Task: made.Name, Attempt: attempt}, Task: made})
			}
		}
	}
	plan, err := job.Record(cfg, specs, job.RecordOptions{StartedAt: began, Dir: dir, Shard: &result.Shard{Index: 1, Total: s.Shards}, ShardOf: job.Shards(specs, s.Shards, nil)})
	if err != nil {
		return err
	}
	text, err := result.Marshal(plan)
	if err != nil {
		return err
	}
	digests := map[string]string{}
	for _, p := range plan.Tasks {
		digests[p.Task] = p.Digest
	}
	prompts := job.Instructions(specs, nil)
	var group errgroup.Group
	group.SetLimit(2 * runtime.GOMAXPROCS(0))
	for index := 1; index <= s.Shards; index++ {
		group.Go(func() error {
			own := plan
			own.Shard = &result.Shard{Index: index, Total: s.Shards}
			tree := &job.Tree{Dir: filepath.Join(dir, fmt.Sprint(index)), Plan: own}
			if err := os.MkdirAll(tree.Dir, 0o755); err != nil {
				return err
			}
			// The plans of shards differ in one number.
			planText := bytes.Replace(text, []byte(`"index": 1,`), fmt.Appendf(nil, `"index": %d,`, index), 1)
			if err := os.WriteFile(filepath.Join(tree.Dir, result.PlanFile), planText, 0o644); err != nil {
				return err
			}
			var shard shardFiles
			for n, key := range own.Own().All() {
				made := largeTrial(began.Add(time.Duration(n)*time.Second), key, n, digests[key.Task])
				if err := shard.add(tree, made, prompts(key.Dataset, key.Task)); err != nil {
					return err
				}
			}
			return errors.Join(
				os.WriteFile(filepath.Join(tree.Dir, result.OutputsFile), shard.outputs.Bytes(), 0o644),
				os.WriteFile(filepath.Join(tree.Dir, result.EventsFile), shard.events.Bytes(), 0o644),
				result.WriteJSON(filepath.Join(tree.Dir, result.ConfigFile), cfg), tree.WriteJob(result.Summarize(own, shard.trials)))
		})
	}
	return group.Wait()
}

// shardFiles collects what a shard says of all its trials.
type shardFiles struct {
	trials          []result.Trial
	outputs, events bytes.Buffer
}

// add writes the directory of a trial, and adds its output and events.
func (f *shardFiles) add(tree *job.Tree, made result.Trial, prompt []result.Message) error {
	f.trials = append(f.trials, made)
	text, err := result.Marshal(made)
	line, lineErr := job.OutputLine(result.OutputOf(tree.Plan, made, prompt))
	f.outputs.Write(line)
	for _, e := range []event.Event{
		{Kind: event.TrialStarted, Time: made.Timestamps.StartedAt, Key: &made.Key},
		{Kind: event.TrialEnded, Time: made.Timestamps.EndedAt, Key: &made.Key, Trial: &made},
	} {
		line, err := json.Marshal(e)
		if err != nil {
			return err
		}
		f.events.Write(append(line, '\n'))
	}
	dir := tree.TrialDir(made.Key)
	return errors.Join(err, lineErr, os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, result.ResultFile), text, 0o644),
		os.WriteFile(filepath.Join(dir, "stdout.txt"), nil, 0o644))
}

// largeTrial returns a trial with all usual fields, the n-th of its shard.
func largeTrial(began time.Time, key result.Key, n int, digest string) result.Trial {
	made := result.Trial{Key: key, Reward: new(float64(n % 2)), TaskDigest: digest, Environment: &result.Environment{
		Provider: "docker", ID: fmt.Sprintf("%064x", n), Image: "debian:bookworm", ImageID: "sha256:" + strings.Repeat("a", 64),
	}}
	made.AgentDigest, made.ConfigDigest = "sha256:"+strings.Repeat("b", 64), "sha256:"+strings.Repeat("c", 64)
	made.TaskGitCommitID, made.VerifierExitCode = new(strings.Repeat("d", 40)), new(0)
	made.Costs.Model, made.Cost = result.Dollars(0.25), result.Dollars(0.25)
	at := func(ms int) *time.Time { return new(began.Add(time.Duration(ms) * time.Millisecond)) }
	made.Timestamps = result.Timestamps{
		StartedAt: *at(0), EnvironmentSetupStartedAt: at(1), EnvironmentSetupEndedAt: at(2), AgentSetupStartedAt: at(3), AgentSetupEndedAt: at(4),
		AgentExecutionStartedAt: at(5), AgentExecutionEndedAt: at(6), VerifierStartedAt: at(7), VerifierEndedAt: at(8), EndedAt: *at(9),
	}
	made.Durations = result.Durations{TotalSec: 1, EnvironmentSetupSec: new(0.1), AgentSetupSec: new(0.2), AgentExecutionSec: new(0.3), VerifierSec: new(0.4)}
	return made
}
