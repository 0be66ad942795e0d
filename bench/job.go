package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing/fstest" // MapFS: the standard library's in-memory fs.FS
	"time"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/model/api/chat"
	"github.com/org/rollout-action/internal/model/gateway"
	"github.com/org/rollout-action/internal/run/dataset"
	"github.com/org/rollout-action/internal/run/job"
	"github.com/org/rollout-action/internal/run/trial"
)

// The hello trial is the smallest one that goes through every step. It only needs bash. Its agent
// has a secret, so all output is searched for it, as in real jobs.
const (
	helloInstruction = "Write \"Hello, world!\" to /tmp/hello.txt.\n"
	helloInstall     = "echo nothing to install\n"
	helloExecute     = "echo working on \"$(<\"$ROLLOUT_TASK_INSTRUCTION\")\"\necho 'Hello, world!' >/tmp/hello.txt\n"
	helloTest        = "[[ $(</tmp/hello.txt) == 'Hello, world!' ]] && echo 1 >/logs/verifier/reward.txt\n"
	secretVariable   = "BENCH_API_KEY"
	instructionPath  = "/tmp/instruction.md" // job.yaml's default
)

// beforeStart and beforeTest list the files that are copied into the environment before the agent
// starts and before the tests.
var beforeStart = []environment.Copy{
	{Src: fstest.MapFS{}, Dst: "/logs/agent", Mode: 0o777},
	{Src: fstest.MapFS{}, Dst: "/logs/verifier", Mode: 0o777},
	{Src: fstest.MapFS{"instruction.md": script(helloInstruction)}, Dst: "/tmp"},
	{Src: fstest.MapFS{"install.sh": script(helloInstall), "execute.sh": script(helloExecute)}, Dst: "/rollout"},
}

var beforeTest = []environment.Copy{
	{Src: fstest.MapFS{"test.sh": script(helloTest)}, Dst: "/tests", Clean: true},
	{Src: fstest.MapFS{}, Dst: "/logs/verifier", Clean: true, Mode: 0o777},
}

func script(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text), Mode: 0o755} }

// writeHello writes a job file and copies of the hello task, as many as tasks, below dir, and
// returns the path of the job file.
func writeHello(dir, image string, tasks int) (string, error) {
	files := fstest.MapFS{}
	var names []string
	for n := range tasks {
		name := fmt.Sprintf("hello-%03d", n+1)
		names = append(names, name)
		files[name+"/task.toml"] = script(fmt.Sprintf("[environment]\ndocker_image = %q\n", image))
		files[name+"/instruction.md"] = script(helloInstruction)
		files[name+"/tests/test.sh"] = script(helloTest)
	}
	text, err := json.Marshal(map[string]any{"tasks": names, "agents": []any{map[string]any{
		"name": "hello", "install": helloInstall, "execute": helloExecute, "env": map[string]string{"API_KEY": "${" + secretVariable + "}"},
	}}})
	files["job.json"] = script(string(text))
	return filepath.Join(dir, "job.json"), errors.Join(err, os.CopyFS(dir, files))
}

// stage is the hello job on a provider, ready to run any number of times.
type stage struct {
	loaded   *config.Loaded
	set      *dataset.Set
	provider environment.Provider
	image    string
	dir      string // where jobs are written
	runs     int
	models   map[string]*gateway.Model // the job's; no agent has one
}

// newStage writes a job of some hello tasks below dir and loads it.
func newStage(ctx context.Context, dir, image string, tasks int, provider environment.Provider) (*stage, error) {
	path, err := writeHello(dir, image, tasks)
	if err != nil {
		return nil, err
	}
	loaded, err := config.Load(path, config.Options{Getenv: func(name string) (string, bool) { return "sk-0123456789abcdef", name == secretVariable }})
	if err != nil {
		return nil, err
	}
	set, err := dataset.FromPaths(ctx, config.TasksDataset, loaded.TaskDirs, task.Options{})
	return &stage{loaded: loaded, set: set, provider: provider, image: image, dir: filepath.Join(dir, "jobs")}, err
}

// withFreshTests returns the same job, whose tests run in an environment of their own.
func (s *stage) withFreshTests() *stage {
	loaded := *s.loaded
	loaded.Job.Verifier.Environment, loaded.Job.Artifacts = config.VerifierFresh, []string{"/tmp/hello.txt"}
	fresh := *s
	fresh.loaded, fresh.dir = &loaded, s.dir+"-fresh"
	return &fresh
}

// withModels adds a model to the job.
func (s *stage) withModels() error {
	m, err := gateway.New(gateway.Config{Name: "m", API: chat.Name, Upstream: "big", Key: "sk-key-of-the-bench", BaseURL: "http://model.invalid"})
	s.models = map[string]*gateway.Model{"m": m}
	s.loaded.Job.Models = map[string]config.Model{"m": {API: string(chat.Name), Model: "big", BaseURL: "http://model.invalid"}}
	return err
}

// trials measures a job of n trials, and removes its directory afterwards.
func (s *stage) trials(n, workers int) measured {
	return func(ctx context.Context) (float64, error) {
		took, err := s.run(n, workers)(ctx)
		return took, errors.Join(err, os.RemoveAll(s.dir))
	}
}

// run measures a whole job, like the run command without its terminal output. It fails if not every
// trial passed.
func (s *stage) run(trials, workers int) measured {
	return timed(func(ctx context.Context) error {
		cfg := s.loaded.Job
		s.runs++
		cfg.Name, cfg.NAttempts, cfg.NConcurrentTrials = fmt.Sprintf("bench-%d", s.runs), trials/len(s.set.Tasks), workers
		specs := job.Plan(cfg, []*dataset.Set{s.set}, s.loaded.Env)
		plan, err := job.Record(cfg, specs, job.RecordOptions{StartedAt: time.Now(), Dir: s.dir})
		if err != nil {
			return err
		}
		tree, err := job.Create(filepath.Join(s.dir, cfg.Name), cfg, plan)
		if err != nil {
			return err
		}
		defer tree.Close()
		var mu sync.Mutex
		var failed *result.Error // of one trial, if there is one
		emit := func(e event.Event) {
			mu.Lock()
			defer mu.Unlock()
			tree.Sink(e)
			if e.Trial != nil && e.Trial.Error != nil {
				failed = e.Trial.Error
			}
		}
		provider := environment.Retry(s.provider, environment.RetryPolicy{
			MaxAttempts: cfg.Retry.MaxAttempts, Multiplier: cfg.Retry.Multiplier,
			Initial: time.Duration(cfg.Retry.InitialDelayMs) * time.Millisecond, Max: time.Duration(cfg.Retry.MaxDelayMs) * time.Millisecond,
		})
		runner := trial.NewRunner(trial.Options{Provider: provider, Job: cfg, Redactor: redact.New(s.loaded.Secrets), Emit: emit, Models: s.models})
		done, err := job.Run(ctx, specs, job.Options{Tree: tree, Workers: workers, Emit: emit, Now: time.Now, Runner: runner})
		if err == nil && (done.PassRateAll != 1 || done.TotalTrials != trials) {
			err = fmt.Errorf("not every trial passed: %+v, of which one: %+v", done.Summary, failed)
		}
		return err
	})
}
