package resume

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/trial"
)

// restart is a job that was run and is resumed.
type restart struct {
	t     *testing.T
	dir   string
	cfg   config.Job
	specs []trial.Spec
	mu    sync.Mutex
	clock time.Time
	ran   []string // in this test's runs, in their order
}

// newRestart returns a job of two tasks with two attempts, none of which has run.
func newRestart(t *testing.T) *restart {
	t.Helper()
	r := &restart{t: t, dir: filepath.Join(t.TempDir(), "j"), clock: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)}
	var err error
	r.cfg, err = config.ParseStored("config.json", []byte(`{"name": "j", "n_attempts": 2, "agents": [{"name": "a", "execute": "true"}]}`))
	r.must(err)
	r.specs = r.plan(2, "task")
	return r
}

// plan returns the trials with so many attempts at tasks with this content.
func (r *restart) plan(attempts int, content string) []trial.Spec {
	var specs []trial.Spec
	for _, name := range []string{"one", "two"} {
		made := &task.Task{Name: name, Dir: "/" + name, FS: fstest.MapFS{"instruction.md": {Data: []byte(content)}}}
		for n := 1; n <= attempts; n++ {
			specs = append(specs, trial.Spec{Key: result.Key{Agent: "a", Dataset: "d", Task: name, Attempt: n}, Task: made, Agent: r.cfg.Agents[0]})
		}
	}
	return specs
}

func (r *restart) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *restart) record() result.Plan {
	r.t.Helper()
	plan, err := job.Record(r.cfg, r.specs, job.RecordOptions{StartedAt: r.clock, Dir: "/", PathsFrom: "../.."})
	r.must(err)
	return plan
}

func (r *restart) now() time.Time { return r.pass(0) }

// pass advances the time, and returns it. The run calls it while trials take their time.
func (r *restart) pass(d time.Duration) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock = r.clock.Add(d)
	return r.clock
}

// Run is a trial that takes a minute and passes.
func (r *restart) Run(_ context.Context, spec trial.Spec, dir string) trial.Outcome {
	r.ran = append(r.ran, filepath.Base(dir))
	began := r.now()
	ended := r.pass(time.Minute)
	out := trial.Outcome{Trial: result.Trial{Key: spec.Key, Reward: new(1.0)}}
	out.Trial.TaskDigest = spec.Task.Digest()
	out.Trial.Timestamps.StartedAt, out.Trial.Timestamps.EndedAt = began, ended
	out.Trial.Durations.TotalSec = 60
	return out
}

func (r *restart) run(ctx context.Context, tree *job.Tree, specs []trial.Spec, earlier []result.Trial) (result.Job, error) {
	r.t.Helper()
	r.ran = nil
	counted, err := job.Run(ctx, specs, job.Options{Tree: tree, Runner: r, Workers: 1, Emit: func(event.Event) {}, Now: r.now, Earlier: earlier})
	r.must(tree.Close())
	return counted, err
}

// first runs the job for the first time.
func (r *restart) first() result.Job {
	r.t.Helper()
	tree, err := job.Create(r.dir, r.cfg, r.record())
	r.must(err)
	counted, err := r.run(r.t.Context(), tree, r.specs, nil)
	r.must(err)
	return counted
}

func (r *restart) open() Job {
	r.t.Helper()
	stored, err := Load(r.dir)
	r.must(err)
	return stored
}

// reopen returns the tree of a resumed job, and its pending trials.
func (r *restart) reopen(policy RerunPolicy) (*job.Tree, Pending) {
	r.t.Helper()
	stored := r.open()
	pending, err := stored.Pending(r.record(), policy)
	r.must(err)
	lock, err := job.TakeLock(r.dir, r.clock)
	r.must(err)
	tree, err := stored.Reopen(lock, r.cfg, r.record(), pending, job.Instructions(r.specs, nil), r.clock)
	r.must(err)
	return tree, pending
}

// todo returns the specs of the pending trials.
func (r *restart) todo(pending Pending) []trial.Spec {
	return slices.DeleteFunc(slices.Clone(r.specs), func(s trial.Spec) bool { return !pending.Keys[s.Key] })
}

// again resumes the job.
func (r *restart) again(policy RerunPolicy) result.Job {
	r.t.Helper()
	tree, pending := r.reopen(policy)
	counted, err := r.run(r.t.Context(), tree, r.todo(pending), pending.Earlier)
	r.must(err)
	return counted
}

func (r *restart) in(name string) string { return filepath.Join(r.dir, filepath.FromSlash(name)) }

func (r *restart) write(name, text string) {
	r.t.Helper()
	r.must(os.MkdirAll(filepath.Dir(r.in(name)), 0o755))
	r.must(os.WriteFile(r.in(name), []byte(text), 0o644))
}

// fail replaces the result of an attempt at task one by an error.
func (r *restart) fail(attempt int, kind result.ErrorType) {
	r.t.Helper()
	text, err := json.Marshal(result.Trial{Key: result.Key{Agent: "a", Dataset: "d", Task: "one", Attempt: attempt}, Error: &result.Error{Type: kind}})
	r.must(err)
	r.write(fmt.Sprintf("a/d/one__%d/result.json", attempt), string(text))
}

func (r *restart) wantRan(want ...string) {
	r.t.Helper()
	if !slices.Equal(r.ran, want) {
		r.t.Errorf("run were %q, want %q", r.ran, want)
	}
}

// wantCounted checks that a run's outcome matches its directory, and that outputs.jsonl has a line
// for each result.
func (r *restart) wantCounted(job result.Job) {
	r.t.Helper()
	onDisk, err := result.ReadTree(r.dir)
	r.must(err)
	a, err := result.Marshal(result.Summarize(onDisk.Plan, onDisk.Trials))
	r.must(err)
	b, err := result.Marshal(job)
	r.must(err)
	if string(a) != string(b) {
		r.t.Errorf("the run says\n%s\nand its directory\n%s", b, a)
	}
	seen := map[string]int{}
	for _, line := range outputs(r.t, r.in(result.OutputsFile)) {
		seen[line.Dir]++
	}
	for _, trial := range onDisk.Trials {
		if seen[trial.Dir()] != 1 {
			r.t.Errorf("%s is in %d lines of %s", trial.Key, seen[trial.Dir()], result.OutputsFile)
		}
	}
	if len(seen) != len(onDisk.Trials) {
		r.t.Errorf("%s has %d trials, want %d", result.OutputsFile, len(seen), len(onDisk.Trials))
	}
}

// outputs returns the lines of an outputs.jsonl.
func outputs(t *testing.T, path string) []result.Output {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []result.Output
	for line := range strings.Lines(string(data)) {
		var o result.Output
		if err := json.Unmarshal([]byte(line), &o); err != nil || !strings.HasSuffix(line, "\n") {
			t.Fatalf("the line %q: %v", line, err)
		}
		out = append(out, o)
	}
	return out
}
