package job

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/org/rollout-action/internal/agent"
	"github.com/org/rollout-action/internal/config"
	"github.com/org/rollout-action/internal/event"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/task"
	"github.com/org/rollout-action/internal/trial"
)

// restart is a job that was run and is to go on.
type restart struct {
	t     *testing.T
	dir   string
	cfg   config.Job
	specs []trial.Spec
	mu    sync.Mutex
	clock time.Time
	ran   []string // in this test's runs, in their order
}

// newRestart is a job of two tasks with two attempts, of which nothing was run.
func newRestart(t *testing.T) *restart {
	t.Helper()
	r := &restart{t: t, dir: filepath.Join(t.TempDir(), "j"), clock: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)}
	var err error
	r.cfg, err = config.Stored("config.json", []byte(`{"name": "j", "n_attempts": 2, "agents": [{"name": "a", "execute": "true"}]}`))
	r.must(err)
	r.specs = r.plan(2, "task")
	return r
}

// plan are the trials with so many attempts at tasks with this content.
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
	plan, err := Record(r.cfg, r.specs, RecordOptions{StartedAt: r.clock, Dir: "/", PathsFrom: "../.."})
	r.must(err)
	return plan
}

func (r *restart) now() time.Time { return r.pass(0) }

// pass lets time pass, and says what time it is then. The run asks while trials take their time.
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
	out := passed(spec.Key)
	out.Trial.TaskDigest = spec.Task.Digest()
	out.Trial.Timestamps.StartedAt, out.Trial.Timestamps.EndedAt = began, ended
	out.Trial.Durations.TotalSec = 60
	return out
}

func (r *restart) run(ctx context.Context, tree *Tree, specs []trial.Spec, earlier []result.Trial) (result.Job, error) {
	r.t.Helper()
	r.ran = nil
	job, err := Run(ctx, specs, Options{Tree: tree, Runner: r, Workers: 1, Emit: func(event.Event) {}, Now: r.now, Earlier: earlier})
	r.must(tree.Close())
	return job, err
}

// first runs the job from its beginning.
func (r *restart) first() result.Job {
	r.t.Helper()
	tree, err := Create(r.dir, r.cfg, r.record())
	r.must(err)
	job, err := r.run(r.t.Context(), tree, r.specs, nil)
	r.must(err)
	return job
}

func (r *restart) open() Stored {
	r.t.Helper()
	stored, err := Open(r.dir)
	r.must(err)
	return stored
}

// reopen is the tree of a job that goes on, and what is pending of it.
func (r *restart) reopen(policy RerunPolicy) (*Tree, Pending) {
	r.t.Helper()
	stored := r.open()
	pending, err := stored.Pending(r.record(), policy)
	r.must(err)
	lock, err := TakeLock(r.dir, r.clock)
	r.must(err)
	tree, err := stored.Reopen(lock, r.cfg, r.record(), pending, Instructions(r.specs, nil), r.clock)
	r.must(err)
	return tree, pending
}

// todo are the trials that are pending.
func (r *restart) todo(pending Pending) []trial.Spec {
	return slices.DeleteFunc(slices.Clone(r.specs), func(s trial.Spec) bool { return !pending.Keys[s.Key] })
}

// again goes on with the job.
func (r *restart) again(policy RerunPolicy) result.Job {
	r.t.Helper()
	tree, pending := r.reopen(policy)
	job, err := r.run(r.t.Context(), tree, r.todo(pending), pending.Earlier)
	r.must(err)
	return job
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

// wantCounted checks that a run's outcome is what its folder says, and that outputs.jsonl has a line for each result.
func (r *restart) wantCounted(job result.Job) {
	r.t.Helper()
	onDisk, err := result.ReadTree(r.dir)
	r.must(err)
	a, err := result.Marshal(result.Summarize(onDisk.Plan, onDisk.Trials))
	r.must(err)
	b, err := result.Marshal(job)
	r.must(err)
	if string(a) != string(b) {
		r.t.Errorf("the run says\n%s\nand its folder\n%s", b, a)
	}
	seen := map[string]int{}
	for _, line := range lines(r.t, r.in(result.OutputsFile)) {
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

func TestWhichTrialsAreRunAgain(t *testing.T) {
	for kind, want := range map[result.ErrorType]bool{
		result.TaskInvalid: false, result.TaskNotFound: false,
		result.AgentInstallFailed: false, result.AgentExecutionTimeout: false,
		result.VerifierFailed: false, result.VerifierRewardMissing: false,
		result.EnvironmentBuildFailed: true, result.EnvironmentImagePullFailed: true, result.EnvironmentStartFailed: true,
		result.EnvironmentLost: true, result.InternalError: true, result.Cancelled: true,
		result.EnvironmentTeardownFailed: false, // everything else about the trial is known
		"of_a_later_version":             false,
		"environment_of_a_later_version": true,
	} {
		failed := result.Trial{Error: &result.Error{Type: kind}}
		if got := (RerunPolicy{}).reruns(failed); got != want {
			t.Errorf("%s: run again is %v, want %v", kind, got, want)
		}
		if got := (RerunPolicy{OnlyFailed: true}).reruns(failed); got != (want && kind != result.Cancelled) {
			t.Errorf("%s with OnlyFailed: run again is %v", kind, got)
		}
		if !(RerunPolicy{Types: []result.ErrorType{kind}}).reruns(failed) {
			t.Errorf("%s is not run again although it is named", kind)
		}
		failed.Reward = new(0.5)
		if (RerunPolicy{}).reruns(failed) {
			t.Errorf("%s is run again although it has a reward", kind)
		}
	}
	if (RerunPolicy{Types: result.ErrorTypes}).reruns(result.Trial{Reward: new(0.0)}) {
		t.Error("a trial without an error is run again")
	}
}

func TestErrorTypesAreAllListed(t *testing.T) {
	types, err := ParseErrorTypes([]string{"all"})
	if err != nil || !slices.Equal(types, result.ErrorTypes) {
		t.Errorf("all is %v, %v", types, err)
	}
	text, err := os.ReadFile("../result/trial.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "ErrorType = \""); n != len(result.ErrorTypes) {
		t.Errorf("%d error types are listed, there are %d", len(result.ErrorTypes), n)
	}
}

func TestAResumedJobIsWhatARunWouldHaveLeft(t *testing.T) {
	r := newRestart(t)
	r.first()
	r.must(os.Remove(r.in("a/d/two__1/result.json")))
	r.write("a/d/two__1/logs/old.txt", "of the first run")
	r.fail(1, result.EnvironmentStartFailed)
	r.write("a/d/two__2/result.json", `{"task_name": "tw`)
	r.clock = r.clock.Add(time.Hour)
	job := r.again(RerunPolicy{})
	r.wantRan("one__1", "two__1", "two__2")
	r.wantCounted(job)
	if job.CompletedTrials != 4 || job.Cancelled {
		t.Errorf("the job is %+v", job.Summary)
	}
	if _, err := os.Stat(r.in("a/d/two__1/logs")); err == nil {
		t.Error("files of the first run are among those of the second")
	}
	if _, err := os.Stat(r.in("superseded/a/d/two__1/logs/old.txt")); err != nil {
		t.Errorf("files of the first run are lost: %v", err)
	}
	// Two minutes of the first run are known by what is left of it, three are of the second; an hour and two minutes nothing ran.
	if job.TotalDurationSec != 5*60 {
		t.Errorf("the job took %g s, want 300", job.TotalDurationSec)
	}
	if !job.StartedAt.Equal(time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)) {
		t.Errorf("the job started at %s", job.StartedAt)
	}
}

func TestAnEarlierResultCountsUntilItsTrialBeginsAgain(t *testing.T) {
	r := newRestart(t)
	r.first()
	r.fail(1, result.EnvironmentStartFailed)
	r.fail(2, result.AgentExecutionTimeout)
	tree, pending := r.reopen(RerunPolicy{Types: []result.ErrorType{result.AgentExecutionTimeout}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	job, err := r.run(ctx, tree, r.todo(pending), pending.Earlier)
	r.must(err)
	r.wantRan()
	r.wantCounted(job)
	if job.FailedTrials != 2 || job.Errors[result.AgentExecutionTimeout] != 1 || job.SkippedTrials != 0 {
		t.Errorf("a resume that was cancelled at once has lost results: %+v, %v", job.Summary, job.Errors)
	}
}

func TestWhatCannotBeMovedAwayIsNotRunAgain(t *testing.T) {
	r := newRestart(t)
	r.first()
	r.fail(1, result.EnvironmentStartFailed)
	r.fail(2, result.EnvironmentStartFailed)
	before, err := os.ReadFile(r.in("a/d/one__1/result.json"))
	r.must(err)
	tree, pending := r.reopen(RerunPolicy{})
	r.write("superseded", "in the way")
	job, err := r.run(t.Context(), tree, r.todo(pending), pending.Earlier)
	if err == nil || !strings.Contains(err.Error(), "its earlier result stays") {
		t.Errorf("the run ends with %v", err)
	}
	r.wantRan()
	r.wantCounted(job)
	if after, err := os.ReadFile(r.in("a/d/one__1/result.json")); err != nil || string(after) != string(before) {
		t.Errorf("the earlier result is %s, %v", after, err)
	}
}

func TestAttemptsGrow(t *testing.T) {
	r := newRestart(t)
	before := r.first()
	r.cfg.NAttempts, r.specs = 3, r.plan(3, "task")
	changes, err := r.open().Drift(r.cfg, r.record())
	if err != nil || len(changes) != 0 {
		t.Fatalf("it has drifted: %v, %v", changes, err)
	}
	job := r.again(RerunPolicy{})
	r.wantRan("one__3", "two__3")
	r.wantCounted(job)
	if job.TotalTrials != 6 || job.PlanDigest == before.PlanDigest || job.PlanDigest != r.record().Digest {
		t.Errorf("the job is %+v", job)
	}

	// Killed between the configuration and the plan, the job has more attempts than planned.
	r.cfg.NAttempts, r.specs = 4, r.plan(4, "task")
	r.must(result.WriteJSON(r.in(result.ConfigFile), r.cfg))
	if changes, err := r.open().Drift(r.cfg, r.record()); err != nil || len(changes) != 0 {
		t.Errorf("it has drifted: %v, %v", changes, err)
	}
	r.again(RerunPolicy{})
	r.wantRan("one__4", "two__4")

	r.cfg.NAttempts, r.specs = 3, r.plan(3, "task")
	changes, err = r.open().Drift(r.cfg, r.record())
	if err != nil || len(changes) != 1 || changes[0].Key != "n_attempts" {
		t.Errorf("fewer attempts are told as %v, %v", changes, err)
	}
}

func TestNothingIsOwedOfAJobThatWasKilledAtItsVeryEnd(t *testing.T) {
	r := newRestart(t)
	want, err := result.Marshal(r.first())
	r.must(err)
	outputs, err := os.ReadFile(r.in(result.OutputsFile))
	r.must(err)
	r.must(os.Remove(r.in(result.ResultFile)))
	r.write(".tmp-result.json123", "{")
	r.must(os.WriteFile(r.in(result.OutputsFile), outputs[:len(outputs)-30], 0o644))
	stored := r.open()
	pending, err := stored.Pending(r.record(), RerunPolicy{})
	r.must(err)
	if len(pending.Keys) != 0 || pending.Kept != 4 {
		t.Fatalf("pending is %+v", pending)
	}
	r.must(stored.Finish(r.cfg, r.record(), pending.Earlier, Instructions(r.specs, nil)))
	for name, want := range map[string]string{result.ResultFile: string(want), result.OutputsFile: string(outputs)} {
		if got, err := os.ReadFile(r.in(name)); err != nil || string(got) != want {
			t.Errorf("%s is\n%s\n%v, want\n%s", name, got, err, want)
		}
	}
	if _, err := os.Stat(r.in(".tmp-result.json123")); err == nil {
		t.Error("the draft that was being written is still there")
	}
}

func TestWhatAKillOrAFullDiskLeftIsMendedWhenNothingIsOwed(t *testing.T) {
	for name, damage := range map[string]func(r *restart, outputs []byte){
		"nothing is missing": func(*restart, []byte) {},
		"no outputs":         func(r *restart, _ []byte) { r.must(os.Remove(r.in(result.OutputsFile))) },
		"an output less": func(r *restart, text []byte) {
			r.write(result.OutputsFile, string(text[bytes.IndexByte(text, '\n')+1:]))
		},
		"an output that is torn": func(r *restart, text []byte) { r.write(result.OutputsFile, string(text)+"{") },
		"no metadata":            func(r *restart, _ []byte) { r.must(os.Remove(r.in(result.MetadataFile))) },
		"old metadata":           func(r *restart, _ []byte) { r.write(result.MetadataFile, "{}") },
		"a draft of a plan":      func(r *restart, _ []byte) { r.write(".tmp-plan.json123", "{") },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRestart(t)
			r.first()
			before := map[string][]byte{}
			for _, name := range []string{result.OutputsFile, result.MetadataFile} {
				text, err := os.ReadFile(r.in(name))
				r.must(err)
				before[name] = text
			}
			damage(r, before[result.OutputsFile])
			stored := r.open()
			pending, err := stored.Pending(r.record(), RerunPolicy{})
			r.must(err)
			r.must(stored.Finish(r.cfg, r.record(), pending.Earlier, Instructions(r.specs, nil)))
			for name, want := range before {
				if got, err := os.ReadFile(r.in(name)); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s is\n%s\n%v, want\n%s", name, got, err, want)
				}
			}
			if drafts, err := filepath.Glob(r.in(".tmp-*")); err != nil || len(drafts) > 0 {
				t.Errorf("drafts are left: %q, %v", drafts, err)
			}
		})
	}
}

func TestFoldersThatNoRunLeftAreRefused(t *testing.T) {
	outside := t.TempDir()
	for name, damage := range map[string]func(r *restart){
		"a result that is a link": func(r *restart) {
			r.must(os.Rename(r.in("a/d/one__1/result.json"), filepath.Join(outside, "r")))
			r.must(os.Symlink(filepath.Join(outside, "r"), r.in("a/d/one__1/result.json")))
		},
		"a trial's folder that is a link": func(r *restart) {
			r.must(os.RemoveAll(r.in("a/d/one__1")))
			r.must(os.Symlink(outside, r.in("a/d/one__1")))
		},
		"an agent's folder that is a link": func(r *restart) {
			r.must(os.RemoveAll(r.in("a")))
			r.must(os.Symlink(outside, r.in("a")))
		},
		"a file for a trial's folder": func(r *restart) {
			r.must(os.RemoveAll(r.in("a/d/one__1")))
			r.write("a/d/one__1", "")
		},
		"the result of another trial": func(r *restart) {
			text, err := os.ReadFile(r.in("a/d/one__2/result.json"))
			r.must(err)
			r.write("a/d/one__1/result.json", string(text))
		},
		"the result of another version of the task": func(r *restart) {
			text, err := os.ReadFile(r.in("a/d/one__1/result.json"))
			r.must(err)
			r.write("a/d/one__1/result.json", strings.Replace(string(text), "sha256:", "sha256:0", 1))
		},
		"a plan without a digest": func(r *restart) {
			plan := r.open().Plan
			plan.Digest = ""
			r.must(result.WriteJSON(r.in(result.PlanFile), plan))
		},
		"a torn plan": func(r *restart) { r.write(result.PlanFile, `{"job_name": "j"`) },
		"a plan with trials in one folder": func(r *restart) {
			plan := r.open().Plan
			plan.Trials = append(plan.Trials, plan.Trials[0])
			r.must(result.WriteJSON(r.in(result.PlanFile), plan))
		},
		"a plan that is a link": func(r *restart) {
			r.must(os.Rename(r.in(result.PlanFile), filepath.Join(outside, "plan.json")))
			r.must(os.Symlink(filepath.Join(outside, "plan.json"), r.in(result.PlanFile)))
		},
		"no configuration": func(r *restart) { r.must(os.Remove(r.in(result.ConfigFile))) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRestart(t)
			r.first()
			damage(r)
			stored, err := Open(r.dir)
			if err == nil {
				_, err = stored.Pending(r.record(), RerunPolicy{})
			}
			var refusal Refusal
			if !errors.As(err, &refusal) {
				t.Errorf("it is told as %v", err)
			} else {
				t.Log(err)
			}
		})
	}
}

func TestDriftIsToldByKey(t *testing.T) {
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
			changes, err := drift(base(), result.Plan{Trials: []result.Key{{Attempt: 2}}}, now, result.Plan{Trials: []result.Key{{Attempt: 2}}})
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

func TestDriftOfTasksIsToldByTheirNames(t *testing.T) {
	before := []result.PlannedTask{{Dataset: "d", Task: "gone", Digest: "sha256:0"}, {Dataset: "d", Task: "mended", Digest: "sha256:1"}, {Dataset: "d", Task: "same", Digest: "sha256:2"}}
	now := []result.PlannedTask{{Dataset: "d", Task: "mended", Digest: "sha256:3"}, {Dataset: "d", Task: "new", Digest: "sha256:4"}, {Dataset: "d", Task: "same", Digest: "sha256:2"}}
	changes, err := drift(config.Job{}, result.Plan{Tasks: before}, config.Job{}, result.Plan{Tasks: now})
	want := []Change{{Message: "task d/mended has other files: it was sha256:1, is sha256:3"}, {Message: "task d/new is new"}, {Message: "task d/gone is gone"}}
	if err != nil || !slices.Equal(changes, want) {
		t.Errorf("got %q, %v, want %q", changes, err, want)
	}
}
