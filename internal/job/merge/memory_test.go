package merge

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/org/rollout-action/internal/config"
	"github.com/org/rollout-action/internal/job"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/task"
	"github.com/org/rollout-action/internal/trial"
)

// largeShards leaves the directories of a job's shards, of two agents, so many tasks and five attempts, and returns how many trials it has. It
// writes what counts for memory and syncs nothing.
func largeShards(t *testing.T, dir string, tasks, shards int) int {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	cfg := config.Job{Name: "large", NAttempts: 5}
	var specs []trial.Spec
	for n := range tasks {
		made := &task.Task{Name: fmt.Sprintf("a-task-with-a-name-%05d", n), FS: fstest.MapFS{"instruction.md": {Data: []byte(strings.Repeat(fmt.Sprint("Do ", n, ". "), 30))}}}
		for _, agent := range []string{"one", "two"} {
			for attempt := 1; attempt <= 5; attempt++ {
				specs = append(specs, trial.Spec{Key: result.Key{Agent: agent, Dataset: "large", Task: made.Name, Attempt: attempt}, Task: made})
			}
		}
	}
	plan, err := job.Record(cfg, specs, job.RecordOptions{StartedAt: began, Dir: dir, Shard: &result.Shard{Index: 1, Total: shards}, ShardOf: job.Shards(specs, shards, nil)})
	must(err)
	text, err := result.Marshal(plan)
	must(err)
	digests := map[string]string{}
	for _, p := range plan.Tasks {
		digests[p.Task] = p.Digest
	}
	prompts := job.Instructions(specs, nil)
	var group errgroup.Group
	group.SetLimit(2 * runtime.GOMAXPROCS(0))
	for index := 1; index <= shards; index++ {
		group.Go(func() error {
			own := plan
			own.Shard = &result.Shard{Index: index, Total: shards}
			tree := &job.Tree{Dir: filepath.Join(dir, fmt.Sprint(index)), Plan: own}
			if err := os.MkdirAll(tree.Dir, 0o755); err != nil {
				return err
			}
			// The plans of shards differ in one number.
			planText := bytes.Replace(text, []byte(`"index": 1,`), fmt.Appendf(nil, `"index": %d,`, index), 1)
			if err := os.WriteFile(filepath.Join(tree.Dir, result.PlanFile), planText, 0o644); err != nil {
				return err
			}
			var trials []result.Trial
			var outputs bytes.Buffer
			for n, key := range own.Own() {
				made := result.Trial{Key: key, Reward: new(float64(n % 2)), TaskDigest: digests[key.Task], Environment: &result.Environment{
					Provider: "docker", ID: fmt.Sprintf("%064x", n), Image: "debian:bookworm", ImageID: "sha256:" + strings.Repeat("a", 64),
				}}
				made.AgentDigest, made.ConfigDigest = "sha256:"+strings.Repeat("b", 64), "sha256:"+strings.Repeat("c", 64)
				made.TaskGitCommitID, made.VerifierExitCode = new(strings.Repeat("d", 40)), new(0)
				made.Costs.Model, made.Cost = result.Dollars(0.25), result.Dollars(0.25)
				at := func(ms int) *time.Time { return new(began.Add(time.Duration(n*1000+ms) * time.Millisecond)) }
				made.Timestamps = result.Timestamps{
					StartedAt: *at(0), EnvironmentSetupStartedAt: at(1), EnvironmentSetupEndedAt: at(2), AgentSetupStartedAt: at(3), AgentSetupEndedAt: at(4),
					AgentExecutionStartedAt: at(5), AgentExecutionEndedAt: at(6), VerifierStartedAt: at(7), VerifierEndedAt: at(8), EndedAt: *at(9),
				}
				made.Durations = result.Durations{TotalSec: 1, EnvironmentSetupSec: new(0.1), AgentSetupSec: new(0.2), AgentExecutionSec: new(0.3), VerifierSec: new(0.4)}
				trials = append(trials, made)
				text, err := result.Marshal(made)
				line, lineErr := job.OutputLine(result.OutputOf(own, made, prompts(key.Dataset, key.Task)))
				outputs.Write(line)
				dir := tree.TrialDir(key)
				if err := errors.Join(err, lineErr, os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, result.ResultFile), text, 0o644)); err != nil {
					return err
				}
			}
			return errors.Join(
				os.WriteFile(filepath.Join(tree.Dir, result.OutputsFile), outputs.Bytes(), 0o644), os.WriteFile(filepath.Join(tree.Dir, result.EventsFile), nil, 0o644),
				result.WriteJSON(filepath.Join(tree.Dir, result.ConfigFile), cfg), tree.WriteJob(result.Summarize(own, trials)))
		})
	}
	must(group.Wait())
	return len(specs)
}

// live is the largest heap that was in use while do ran, after collections that come often, in bytes beyond what was in use before; and how
// much do allocated.
func live(do func()) (peak, allocated uint64) {
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	runtime.GC()
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before, allocs := sample[0].Value.Uint64(), sample[1].Value.Uint64()
	done, sampled := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sampled)
		mine := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		for {
			metrics.Read(mine)
			peak = max(peak, mine[0].Value.Uint64())
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond): // samples
			}
		}
	}()
	do()
	close(done)
	<-sampled
	metrics.Read(sample)
	return peak - min(peak, before), sample[1].Value.Uint64() - allocs
}

// TestMemoryDoesNotGrowWithTheNumberOfShards counts what a merge holds and allocates: both depend on the number of trials alone. Each shard
// has the whole plan.
func TestMemoryDoesNotGrowWithTheNumberOfShards(t *testing.T) {
	const tasks = 200
	type need struct{ peak, allocated uint64 }
	needs := map[int]need{}
	for _, shards := range []int{2, 50} {
		dir := t.TempDir()
		trials := largeShards(t, filepath.Join(dir, "shards"), tasks, shards)
		var merged Result
		var err error
		peak, allocated := live(func() {
			merged, err = Run(t.Context(), Options{Paths: []string{filepath.Join(dir, "shards")}, Output: filepath.Join(dir, "out")})
		})
		if err != nil || merged.Job.CompletedTrials != trials || len(merged.Incomplete) > 0 {
			t.Fatalf("%d shards: %v, %d of %d trials, %q", shards, err, merged.Job.CompletedTrials, trials, merged.Incomplete)
		}
		needs[shards] = need{peak, allocated}
		t.Logf("%d trials of %d shards: %d bytes a trial held, %d allocated", trials, shards, peak/uint64(trials), allocated/uint64(trials))
	}
	// The plan is several hundred kilobytes of text: if each shard's were read whole, 50 would take more than that.
	if few, many := needs[2], needs[50]; many.peak > few.peak+10<<20 || many.allocated > few.allocated+20<<20 {
		t.Errorf("50 shards need %d bytes and allocate %d, two need %d and %d", many.peak, many.allocated, few.peak, few.allocated)
	}
	// 100,000 trials have to stay below 500 MB, also between two collections.
	if most := 4000 * uint64(tasks*10); needs[50].peak > most {
		t.Errorf("it holds %d bytes, more than %d", needs[50].peak, most)
	}
}
