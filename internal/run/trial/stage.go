package trial

import (
	"context"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/excerpt"
	"github.com/org/rollout-action/internal/lib/memfs"
	"github.com/org/rollout-action/internal/run/trial/access"
	"github.com/org/rollout-action/internal/run/trial/artifacts"
	"github.com/org/rollout-action/internal/run/trial/combine"
	"github.com/org/rollout-action/internal/run/trial/failure"
	"github.com/org/rollout-action/internal/run/trial/readiness"
	"github.com/org/rollout-action/internal/run/trial/record"
	"github.com/org/rollout-action/internal/run/trial/timing"
)

// stage is a step of a task with steps. It is an execution with a separate record and a plan for
// the step alone, in the environment of its trial, like a judge. It is called stage because
// execution.steps returns other steps.
type stage struct {
	run   *execution
	first bool
	// cleans is set if an earlier step has left its tests in the environment.
	cleans bool
	ready  bool // prepare has succeeded
}

// stageSteps returns the steps of a trial whose task has steps.
func stageSteps(x *execution) []step {
	steps := until(event.AgentSetup, x.agentSteps(x.setup))
	steps = append(steps, step{"steps of the task", func(ctx context.Context) { runStages(ctx, x) }}.when(x.NoError))
	if x.spec.judged() {
		steps = append(steps, x.phase(event.Judging, x.judgeAll).when(x.mayJudge))
	}
	return append(steps, step{"end watch", x.endWatch})
}

// runStages runs the steps of the task, until one has failed or has too low a reward, and combines
// their rewards.
func runStages(ctx context.Context, x *execution) {
	if x.spec.judged() {
		if err := x.beginProcesses(ctx); err != nil {
			x.Fail(failure.Classify(event.AgentExecution, err, x.timeouts, x.Secrets))
			return
		}
	}
	cleans, calls := false, &access.Calls{Dir: x.Dir}
	for i, t := range x.spec.Task.Steps() {
		s := newStage(x, t, calls)
		s.first, s.cleans = i == 0, cleans
		s.run.tests.needed = i+1 < len(x.spec.Task.Config.Steps) || judgedInTrial(x.spec)
		s.run.walk(ctx, s.steps())
		ran := s.note(x)
		begins, whole := next(ctx, x, i)
		if !whole {
			return
		}
		if !begins {
			break
		}
		cleans = cleans || ran.VerifierSec != nil && !s.run.tests.moved
	}
	if x.startOver == nil {
		combine.Rewards(&x.Trial, x.spec.Task.Config.Strategy, x.rules.PartialSteps)
	}
}

// next reports whether the step after number i begins: not after the last one, one that has failed,
// or one with too low a reward, which it notes. whole is false if it would begin, but the job was
// cancelled or the environment is lost: the rewards so far are not those of the trial then.
func next(ctx context.Context, x *execution, i int) (begins, whole bool) {
	ran := &x.Trial.Steps[i]
	ended := combine.Ended(*ran)
	if least := x.spec.Task.Config.Steps[i].MinReward; !ended && len(least) > 0 && !x.job.Verifier.Disable {
		ran.Unmet = combine.Unmet(least, *ran)
	}
	switch {
	case ended || ran.Unmet != "" || i == len(x.spec.Task.Config.Steps)-1:
		return false, true
	case ctx.Err() != nil:
		x.Fail(failure.Cancelled(ctx, event.AgentExecution))
		return false, false
	case x.Spent || x.LostEnvironment():
		return false, false
	}
	return true, true
}

// newStage returns a step of the trial x. t is the step as a task, and calls the record of the
// model's calls in all steps.
func newStage(x *execution, t *task.Task, calls *access.Calls) *stage {
	spec := x.spec
	spec.Task = t
	p := newPlan(spec, x.job)
	p.spec.Judges, p.spec.GroupJudges, p.spec.Reward = nil, nil, nil
	p.role.below, p.role.calls = result.StepDir(t.StepName()), calls
	s := &stage{run: &execution{agentRun: agentRun{
		Runner: x.Runner, plan: p, Deadlines: x.Deadlines, live: x.live, layer: x.layer, agentBegan: x.agentBegan,
		Record: record.Record{
			Began: x.Now(), Dir: filepath.Join(x.Dir, filepath.FromSlash(p.role.below)), MaxStream: x.MaxStream, Secrets: x.Secrets, Sink: inStep(x, t), Now: x.Now,
		},
	}}}
	where := *x.Trial.Environment
	where.Verifier, where.Outcome = nil, nil
	s.run.Trial = result.Trial{Key: x.Trial.Key, Environment: &where}
	s.run.Trial.Timestamps.StartedAt = result.Stamp(s.run.Began)
	s.run.Deadlines.Retry = s.run.RecordRetry
	s.run.tests = newApart(s.run.plan)
	s.run.tests.stays = true
	s.run.judged, s.run.alsoKept = x.spec.judged(), x.judgedArtifacts()
	return s
}

// inStep returns the sink of the events of the step t, which they name.
func inStep(x *execution, t *task.Task) event.Sink {
	all := x.spec.Task.Config.Steps
	at := slices.IndexFunc(all, func(s task.Step) bool { return s.Name == t.StepName() })
	step := &event.Step{Name: t.StepName(), Number: at + 1, Of: len(all)}
	return func(e event.Event) {
		e.Step = step
		x.Sink(e)
	}
}

// steps returns the way through a step of the task.
func (s *stage) steps() []step {
	steps := []step{s.run.phase(event.EnvironmentSetup, s.prepare)}
	if s.run.spec.Agent.Name != agent.Nop {
		steps = append(steps, s.run.phase(event.AgentExecution, s.run.execute).when(s.run.NoError))
	}
	if len(s.run.spec.Task.Config.Verifier.Collect) > 0 {
		steps = append(steps, step{"collect state", func(ctx context.Context) { collectState(ctx, s.run, true) }}.when(s.isReady))
	}
	steps = append(steps, step{"keep artifacts", s.run.keepArtifacts}.when(s.isReady))
	if s.run.job.Environment.Keep == config.KeepOutcome {
		steps = append(steps, step{"keep outcome", s.run.keepOutcome}.when(s.isReady))
	}
	if s.run.judged {
		steps = append(steps, step{"keep changes", s.run.keepChanges})
	}
	if readsServices(s.run) {
		steps = append(steps, step{"keep services", func(ctx context.Context) { keepServices(ctx, s.run) }}.when(s.isReady))
	}
	if !s.run.job.Verifier.Disable {
		steps = append(steps, s.run.phase(event.Verifier, s.run.verify).when(func() bool { return s.ready && s.run.mayVerify() }))
	}
	return append(steps,
		step{"collect", s.run.collect},
		step{"end tests", s.endTests},
		step{"close gateway", s.run.closeGateway},
		step{"refusals", func(context.Context) { s.run.refusals.Warn(s.run.Warn) }},
	)
}

func (s *stage) isReady() bool { return s.ready }

// prepare puts the files of a step into the environment, runs its setup script and waits until it
// is healthy. Before, it removes the logs and the tests of the step before.
func (s *stage) prepare(ctx context.Context) error {
	if err := os.MkdirAll(s.run.Dir, 0o755); err != nil {
		return environment.MarkMachineError(err)
	}
	own, err := s.run.files()
	if err != nil {
		return err
	}
	files := s.clean()
	for _, c := range own {
		if slices.Contains(s.run.rules.LogDirs, c.Dst) {
			continue
		}
		c.Clean = c.Clean && s.first // Harbor adds the solutions of later steps
		files = append(files, c)
	}
	dir, setup, err := s.workDirFiles(ctx, &files)
	if err != nil {
		return err
	}
	if err := s.run.live.copyTo(ctx, files...); err != nil {
		return err
	}
	health := s.run.spec.Task.Config.Environment.Healthcheck != nil
	if setup || health {
		if err := s.run.switchNetwork(ctx, "the step's setup", s.run.networks.Install); err != nil {
			return err
		}
	}
	if setup {
		if err := s.runSetup(ctx, dir); err != nil {
			return err
		}
	}
	if health {
		r := readiness.Check{Task: s.run.spec.Task.Config, Timeouts: s.run.timeouts, Env: s.run.live.env, Variables: s.run.commandEnv(), Secrets: s.run.Secrets}
		if err := r.AwaitTask(ctx); err != nil {
			return err
		}
	}
	s.ready = true
	return nil
}

// clean returns copies that remove the logs of an earlier step, and its tests.
func (s *stage) clean() (files []environment.Copy) {
	if s.first {
		return nil
	}
	for _, dir := range s.run.rules.LogDirs {
		files = append(files, environment.Copy{Src: memfs.Dir{}, Dst: dir, Clean: true, Mode: 0o777})
	}
	if s.cleans {
		files = append(files, environment.Copy{Src: memfs.Dir{}, Dst: environment.TestsDir, Clean: true})
	}
	return files
}

// workDirFiles adds the step's files for the working directory, and returns that directory and
// whether there is a setup script.
func (s *stage) workDirFiles(ctx context.Context, files *[]environment.Copy) (dir string, setup bool, err error) {
	own, setup, err := s.run.spec.Task.WorkDir()
	if err != nil {
		return "", false, failure.Unreadable(path.Join(s.run.role.below, "workdir/"), err)
	}
	if own == nil {
		return "", false, nil
	}
	dir = s.run.spec.Task.Config.Environment.WorkDir
	if dir == "" {
		said := &excerpt.Ends{Size: 1 << 12}
		code, err := s.run.live.env.Exec(ctx, "pwd", environment.ExecOptions{Env: s.run.commandEnv(), Stdout: said, Stderr: io.Discard, Timeout: timing.CopyTimeout})
		if err != nil {
			return "", false, err
		}
		if dir = strings.TrimSuffix(said.String(), "\n"); code != 0 || !path.IsAbs(dir) {
			return "", false, failure.Newf(result.EnvironmentStartFailed, "the working directory of the environment is not known: pwd ended with exit code %d", code)
		}
	}
	*files = append(*files, environment.Copy{Src: artifacts.WorldReadable{FS: own, Program: task.SetupScript}, Dst: path.Clean(dir)})
	return path.Clean(dir), setup, nil
}

// runSetup runs the setup script of the step, which was copied into dir, as the agent's user.
func (s *stage) runSetup(ctx context.Context, dir string) error {
	s.run.refusals.SetActor("the step's setup script")
	script := path.Join(dir, task.SetupScript)
	code, err := s.run.exec(ctx, scriptRun{script: "exec bash '" + strings.ReplaceAll(script, "'", `'\''`) + "'", logs: result.SetupDir, timeout: s.run.timeouts.Execute, user: s.run.role.user})
	if err != nil || code == 0 {
		return err
	}
	kind, cause := result.EnvironmentStartFailed, ""
	if s.run.agentBegan {
		kind, cause = result.AgentExecutionFailed, " after the agent's work"
	}
	return failure.Newf(kind, "%s/workdir/%s ended with exit code %d%s%s: see %s", s.run.role.below, task.SetupScript, code, cause, s.run.outOfMemory(ctx), s.run.outputIn(result.SetupDir))
}

// endTests removes the environment of the step's tests, if they had their own.
func (s *stage) endTests(ctx context.Context) {
	if !s.run.tests.moved || s.run.live == nil {
		return
	}
	s.run.endWatch(ctx)
	keepServiceLogs(ctx, &s.run.agentRun)
	s.run.end(ctx, func(c context.Context) error {
		err := s.run.live.env.Destroy(c)
		s.run.NoteEnvironmentCost(s.run.live.env)
		return err
	})
}

// note adds a step that has ended to the record of its trial.
func (s *stage) note(x *execution) result.StepRun {
	ran := combine.Of(s.run.spec.Task.StepName(), &s.run.Trial)
	if s.run.startOver != nil {
		x.startOver = s.run.startOver
	}
	x.agentBegan = x.agentBegan || s.run.agentBegan
	x.Spent = x.Spent || s.run.Spent
	x.remains = x.remains || s.run.remains
	if s.run.changes != "" {
		x.changes = s.run.changes
	}
	combine.Add(&x.Trial, ran, &s.run.Trial)
	if e := s.run.Trial.Error; e != nil {
		x.Fail(&failure.Error{Type: e.Type, Message: combine.Label(ran.Name) + e.Message, Detail: s.run.Detail, MachineFault: s.run.MachineFault})
	}
	return ran
}
