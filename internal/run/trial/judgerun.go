package trial

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/agent/presets"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/judge"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/awake"
	"github.com/org/rollout-action/internal/lib/excerpt"
	"github.com/org/rollout-action/internal/lib/memfs"
	"github.com/org/rollout-action/internal/run/shell"
	"github.com/org/rollout-action/internal/run/trial/failure"
	"github.com/org/rollout-action/internal/run/trial/judging"
	"github.com/org/rollout-action/internal/run/trial/record"
	"github.com/org/rollout-action/internal/run/trial/reward"
	"github.com/org/rollout-action/internal/run/trial/timing"
)

// judgeRun is one attempt of a judge: a run of its agent. It has a separate record; only the
// environment may be that of the trial.
type judgeRun struct {
	agentRun
	judge   judging.Judge
	in      judging.Material
	verdict judge.Verdict // counts only without an error
}

// judgeAttempt returns an attempt of a judge whose files are in the directory below, in that of all
// judges.
func (x *execution) judgeAttempt(j judging.Judge, in judging.Material, below string) (*judgeRun, error) {
	dir := filepath.Join(x.Dir, result.JudgesDir, below)
	p := x.plan
	if x.tests.moved && j.Place() == judge.InFresh { // which has the task's image
		p = x.tests.before
	}
	p.spec.Agent, p.spec.Env, p.spec.Files, p.spec.Again = j.Agent, j.Env, j.Files, nil
	p.spec.Judges, p.spec.GroupJudges = nil, nil
	p.timeouts.Execute = time.Duration(min(j.TimeoutSec*p.job.TimeoutMultiplier*float64(time.Second), 1<<62))
	p.networks.Agent = p.networks.Verify
	at := "" // its directory in the environment
	if j.Place() != "" {
		at = environment.JudgesDir + "/" + strings.ToLower(rand.Text())
		p.job.InstructionPath = at + "/" + result.JudgePromptFile
	}
	prompt, err := in.Ask(j, at)
	if err != nil {
		return nil, failure.Newf(result.JudgeFailed, "it has no prompt: %v", err)
	}
	if tooLong(j.Agent, len(prompt)) {
		return nil, failure.Newf(result.JudgeFailed, "its prompt has %d bytes, and the program of the preset %s takes it as one argument of at most %d bytes: let it read artifacts, or choose another agent",
			len(prompt), j.Agent.Preset, presets.MaxArgument)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, environment.MarkMachineError(err)
	}
	if err := os.WriteFile(filepath.Join(dir, result.JudgePromptFile), x.Secrets.Bytes([]byte(prompt)), 0o644); err != nil {
		return nil, environment.MarkMachineError(err)
	}
	var unowned []string
	var files []environment.Copy
	if at != "" {
		artifacts, inputs, err := in.Files(j, at)
		if err != nil {
			return nil, err
		}
		for i, c := range artifacts {
			if c.Entries == nil {
				unowned = append(unowned, j.Artifacts[i])
			}
		}
		if j.Place() == judge.InFresh { // where no other user is
			files = slices.Concat(artifacts, []environment.Copy{{Src: memfs.Dir{}, Dst: at, Mode: 0o777}})
		}
		files = slices.Concat(files, judgeFiles(at, prompt), inputs)
	}
	p.role = role{
		judges: true, script: "its execute script", below: result.JudgesDir + "/" + below, dir: at,
		user:        string(p.spec.Task.Config.Verifier.User), // like the tests
		env:         map[string]string{judgeDirVar: at},
		instruction: func() (string, error) { return prompt, nil },
		files:       func() ([]environment.Copy, error) { return files, nil },
	}
	if p.isShell() { // others may be installed in their HOME
		p.role.env["HOME"] = at + "/home"
	}
	run := &judgeRun{judge: j, in: in, agentRun: agentRun{
		Runner: x.Runner, plan: p, Deadlines: x.Deadlines,
		Record: record.Record{Began: x.Now(), Dir: dir, MaxStream: x.MaxStream, Secrets: x.Secrets, Sink: func(event.Event) {}, Now: x.Now},
	}}
	run.Trial = result.Trial{Key: p.spec.Key, Environment: &result.Environment{Provider: x.opts.Provider.Name()}}
	for _, name := range unowned {
		run.Warn("the artifact %s was kept by an earlier version of Rollout, without owners and modes: its files belong to root here", name)
	}
	run.Deadlines.Retry = run.RecordRetry
	if j.Place() == judge.InTrial {
		run.live = x.live
		run.Trial.Environment.Unenforced = x.Trial.Environment.Unenforced
	}
	return run, nil
}

// judgeFiles returns the content of a judge's directory: its prompt and an empty home directory.
func judgeFiles(dir, prompt string) []environment.Copy {
	return []environment.Copy{
		{Src: memfs.Dir{result.JudgePromptFile: {Data: []byte(prompt), Mode: 0o644}}, Dst: dir},
		{Src: memfs.Dir{}, Dst: path.Join(dir, "home"), Mode: 0o777},
	}
}

// run runs the judge and returns its verdict. Errors are in the record: the verdict counts only if
// there is none.
func (j *judgeRun) run(ctx context.Context) judge.Verdict {
	j.walk(ctx, j.steps())
	return j.verdict
}

// steps returns the way through the attempt. Only a fresh environment is the judge's own.
func (j *judgeRun) steps() []step {
	read := step{"read verdict", j.read}
	var steps []step
	switch j.judge.Place() {
	case judge.InFresh:
		steps = append(j.agentSteps(j.setup), read, step{"end watch", j.endWatch}, step{"teardown", j.teardown})
	case judge.InTrial:
		steps = append(j.agentSteps(j.enter), read)
	default: // a call
		steps = append(j.agentSteps(func(context.Context) error { return nil }), read)
	}
	return append(steps,
		step{"close gateway", j.closeGateway},
		step{"refusals", func(context.Context) { j.refusals.Warn(j.Warn) }},
	)
}

// enter copies a judge's files into the trial's environment.
func (j *judgeRun) enter(ctx context.Context) error {
	network := j.networks.Verify
	if j.spec.Agent.Install != "" {
		network = j.networks.Install
	}
	if err := j.switchNetwork(ctx, "the judge "+j.judge.Name, network); err != nil {
		return err
	}
	if err := j.makeDir(ctx); err != nil {
		return err
	}
	files, err := j.role.files()
	if err != nil {
		return err
	}
	return j.live.copyTo(ctx, slices.Concat(j.agentFiles(), files, j.scripts())...)
}

// makeDir makes the directory of a judge in the trial's environment. Only the judge's user can
// enter it: others may learn its name from the arguments of the judge's commands. It removes
// everything at the parent's path before, also the directories of earlier judges with their
// verdicts.
func (j *judgeRun) makeDir(ctx context.Context) error {
	// Every user can create a directory here, but neither list nor replace those of others.
	if err := j.live.copyTo(ctx, environment.Copy{Src: memfs.Dir{}, Dst: environment.JudgesDir, Clean: true, Mode: fs.ModeSticky | 0o733}); err != nil {
		return err
	}
	env := j.commandEnv()
	env[judgeDirVar] = j.role.dir
	trouble := &excerpt.Ends{Size: 1 << 10}
	code, err := j.live.env.Exec(ctx, `mkdir "$`+judgeDirVar+`" && chmod 700 "$`+judgeDirVar+`"`, environment.ExecOptions{
		Env: env, User: j.role.user, Stderr: trouble, Timeout: timing.CopyTimeout,
	})
	if err == nil && code != 0 {
		return failure.Newf(result.JudgeFailed, "its directory cannot be made: exit code %d: %s", code, trouble)
	}
	return err
}

// isCall reports whether the agent is a judge that is one call of its model.
func (p *plan) isCall() bool { return p.role.dir == "" }

// executeCall asks the model of a judge.
func (x *agentRun) executeCall(ctx context.Context) error {
	g, err := x.openGateway(ctx)
	if err != nil {
		return err
	}
	prompt, err := x.role.instruction()
	if err != nil {
		return x.endGateway(g, err)
	}
	log, err := x.Capture(result.CommandDir + "/" + result.StdoutFile)
	if err != nil {
		return x.endGateway(g, err)
	}
	defer x.Release(log)
	limited, cancel := awake.WithTimeoutCause(ctx, x.timeouts.Execute, environment.ErrTimeout)
	defer cancel()
	m := x.opts.Models[x.spec.Agent.Model]
	x.agentBegan = true
	_, err = shell.Ask(limited, shell.Options{API: g.API(), Model: m.Upstream, Transport: g.Transport(), Instruction: prompt, Log: log})
	switch {
	case err != nil && ctx.Err() != nil:
		err = ctx.Err()
	case err != nil && limited.Err() != nil:
		err = environment.ErrTimeout
	default:
		err = x.shellFailure(ctx, err)
	}
	return x.endGateway(g, err)
}

// read reads the verdict of a judge that has ended without an error.
func (j *judgeRun) read(ctx context.Context) {
	if !j.NoError() {
		return
	}
	if stop := j.Trial.StopCondition; stop != "" {
		j.Fail(failure.Newf(result.JudgeFailed, "it was stopped before its end (%s), so nothing that it left counts as its verdict: raise its budget", stop))
		return
	}
	v, err := j.given(ctx)
	j.verdict = v
	var invalid *judge.InvalidError
	switch {
	case err == nil:
		if j.judge.VerdictSource() == judge.FromReply {
			err = os.WriteFile(filepath.Join(j.Dir, result.VerdictFile), v.JSON, 0o644)
		}
		if err != nil {
			j.Warn("%s could not be written: %v", result.VerdictFile, err)
		}
	case ctx.Err() != nil:
		j.Fail(failure.Cancelled(ctx, event.Judging))
	case errors.Is(err, judge.ErrMissing):
		j.Fail(failure.Newf(result.JudgeVerdictMissing, "it ended without a verdict (%s)", j.expected()))
	case errors.As(err, &invalid):
		j.Fail(failure.Newf(result.JudgeVerdictInvalid, "its verdict cannot be used: %v", err))
	default:
		j.Fail(failure.Classify(event.Judging, err, j.timeouts, j.Secrets))
	}
}

// expected names the place where the verdict should have been.
func (j *judgeRun) expected() string {
	if j.judge.VerdictSource() == judge.FromReply {
		return "its last answer has no text"
	}
	return "it wrote no " + result.VerdictFile + " in its directory (source: file)"
}

// given returns the verdict that the judge gave, redacted.
func (j *judgeRun) given(ctx context.Context) (judge.Verdict, error) {
	if j.judge.VerdictSource() == judge.FromReply {
		return j.said()
	}
	text, err := j.verdictFile(ctx)
	if err != nil {
		return judge.Verdict{}, err
	}
	return j.in.Read(j.judge, text)
}

// errTwoVerdicts is the error of a judge with two different verdicts.
var errTwoVerdicts = &judge.InvalidError{Problem: "there are two that differ: a program that the judge ran may have used its access to the model"}

// said returns the verdict in the judge's messages. Rollout's own loop has one message at its end,
// and no program in the environment can send messages for it. Programs that another agent runs can:
// they find its key in the variables or in the memory of the agent. So all messages with the key
// count, and together they must contain one verdict only.
func (j *judgeRun) said() (v judge.Verdict, err error) {
	if j.gateway == nil {
		return v, judge.ErrMissing
	}
	report := j.gateway.Report()
	if len(report.Reply) > environment.MaxTap {
		return v, &judge.InvalidError{Problem: reward.ErrTooLong.Error()}
	}
	if !j.gateway.Shared() {
		return j.in.Read(j.judge, j.Secrets.Bytes([]byte(report.Reply)))
	}
	found := false
	for _, reply := range report.Replies {
		one, failed := j.in.Read(j.judge, j.Secrets.Bytes([]byte(reply)))
		switch {
		case failed != nil:
			err = failed
		case found && !bytes.Equal(one.JSON, v.JSON):
			return judge.Verdict{}, errTwoVerdicts
		default:
			v, found = one, true
		}
	}
	switch {
	case found:
		return v, nil
	case err == nil:
		err = judge.ErrMissing
	}
	return judge.Verdict{}, err
}

// verdictFile returns the file in the judge's directory, redacted.
func (j *judgeRun) verdictFile(ctx context.Context) ([]byte, error) {
	c, cancel := j.Cleanup(ctx, timing.CollectTimeout, timing.CollectGrace)
	defer cancel()
	var file reward.File
	before := len(j.Trial.Omitted)
	err := j.CopyOut(c, j.live.env, path.Join(j.role.dir, result.VerdictFile), ".", true, []string{result.VerdictFile}, func(name string, size int64) io.Writer {
		if name != result.VerdictFile {
			return nil
		}
		file.Size = size
		return &file
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, judge.ErrMissing
	case err != nil:
		return nil, err
	case !file.Found && len(j.Trial.Omitted) > before:
		return nil, &judge.InvalidError{Problem: "it is no plain file but " + j.Trial.Omitted[before].Reason}
	case !file.Found:
		return nil, &judge.InvalidError{Problem: "it is no plain file"}
	}
	text, err := file.Whole()
	if err != nil {
		return nil, &judge.InvalidError{Problem: err.Error()}
	}
	return j.Secrets.Bytes([]byte(text)), nil
}

// failureOf returns the error of a judge as an error of its trial.
func (j *judgeRun) failureOf() *failure.Error {
	e := j.Trial.Error
	if e == nil {
		return nil
	}
	f := &failure.Error{Type: result.JudgeFailed, Detail: j.Detail, MachineFault: j.MachineFault}
	message := e.Message
	switch e.Type {
	case result.Cancelled, result.InternalError:
		f.Type = e.Type
	case result.EnvironmentLost:
		if j.judge.Place() == judge.InTrial {
			f.Type = e.Type
		}
	case result.AgentExecutionTimeout:
		f.Type, message = result.JudgeTimeout, fmt.Sprintf("it took longer than %v seconds: raise its timeout_sec", j.timeouts.Execute.Seconds())
	case result.JudgeFailed, result.JudgeTimeout, result.JudgeVerdictInvalid, result.JudgeVerdictMissing:
		f.Type = e.Type
	}
	f.Message = fmt.Sprintf("the judge %s failed: %s", j.judge.Name, message)
	return f
}

// judgeGit returns the variables that keep git from running programs of a repository; nil if the
// agent is not a judge.
func judgeGit(ctx context.Context, x *agentRun) (map[string]string, error) {
	if !x.role.judges {
		return nil, nil
	}
	return judging.GitVariables(func(command string, env map[string]string, stdout io.Writer) error {
		all := x.commandEnv()
		maps.Copy(all, env)
		_, err := x.live.env.Exec(ctx, command, environment.ExecOptions{
			Env: all, WorkDir: x.spec.Task.Config.Environment.WorkDir, User: x.role.user, Stdout: stdout, Timeout: timing.CopyTimeout,
		})
		return err
	})
}
