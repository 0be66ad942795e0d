package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/inspect"
	"github.com/org/rollout-action/internal/app/rerun"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/redact"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/run/trial"
	"github.com/org/rollout-action/internal/run/trial/experiment"
)

// ShellRequest is the request of Shell.
type ShellRequest struct {
	Job     stages.JobRequest // one task and one agent of it; without an agent, tasks without a job file get nop
	At      string            // the point in the trial at which the shell begins, one of ShellPoints; "": the default
	User    string            // the user; "": as for the trial's next command
	Command []string          // a program to run in place of the shell, with its arguments
	Console Console
	// Dir and Trial, if set, select a trial of a job by a part of its name: the shell is in a copy
	// of the environment that it kept. At is empty then, and Job has no File.
	Dir, Trial string
	JobFile    string // with Dir, as in ResumeRequest
}

// Console is the input and output of a shell.
type Console struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Terminal switches the user's terminal to raw mode, and returns it with a function that undoes
	// that. nil: there is no terminal.
	Terminal func() (environment.Terminal, func(), error)
}

// shellPoint is a point in a trial at which a shell can begin.
type shellPoint struct {
	name  string
	after event.Phase
	what  string // to follow "a shell"
}

var shellPoints = []shellPoint{
	{"setup", event.EnvironmentSetup, "before the agent is installed"},
	{"installed", event.AgentSetup, "as the agent begins"},
	{"executed", event.AgentExecution, "after the agent ran"},
	{"verified", event.Verifier, "after the tests ran"},
}

// DefaultShellPoint is the default of ShellRequest.At.
const DefaultShellPoint = "installed"

// ShellPoints returns the values of ShellRequest.At.
func ShellPoints() []string {
	var names []string
	for _, p := range shellPoints {
		names = append(names, p.name)
	}
	return names
}

// Shell runs a trial up to a point, and then a shell in its environment, which is removed at the
// end. It returns the exit code of the shell.
func Shell(ctx context.Context, h *host.Host, req ShellRequest) (code int, err error) {
	if req.Dir != "" {
		return shellInKept(ctx, h, req)
	}
	if req.At == "" {
		req.At = DefaultShellPoint
	}
	at := slices.IndexFunc(shellPoints, func(p shellPoint) bool { return p.name == req.At })
	if at < 0 {
		return -1, host.Usagef("--at %s: want %s", host.Clean(req.At), strings.Join(ShellPoints(), ", "))
	}
	if req.Job.File == "-" {
		return -1, host.Usagef("the job file cannot come from standard input, which is the shell's: give a file or a directory")
	}
	p, spec, err := planShell(ctx, h, req.Job)
	if err != nil {
		return -1, err
	}
	defer p.Close()
	h.Output.Warnings(p.Warnings)
	s := &shell{Planned: p, req: req, point: shellPoints[at], secrets: redact.New(p.Secrets), code: -1}
	return s.run(ctx, spec)
}

// shellInKept runs a shell in a copy of an environment that a trial has kept.
func shellInKept(ctx context.Context, h *host.Host, req ShellRequest) (code int, err error) {
	stored, err := rerun.LoadStored(h.Paths, req.Dir, "entered")
	if err != nil {
		return -1, err
	}
	key, err := inspect.FindTrial(h.Paths, req.Dir, req.Trial)
	if err != nil {
		return -1, err
	}
	req.Job.Unused = true
	p, err := rerun.PlanStored(ctx, h, stored, stages.ResumeRequest{Dir: req.Dir, JobFile: req.JobFile, Job: req.Job})
	if err != nil {
		return -1, err
	}
	defer p.Close()
	p.Specs = slices.DeleteFunc(p.Specs, func(s trial.Spec) bool { return s.Key != key })
	trials, unreadable := result.ReadTrials(h.Path(req.Dir), []result.Key{key})
	switch {
	case len(unreadable) > 0:
		return -1, unreadable[0]
	case len(trials) == 0:
		return -1, host.Usagef("%s has no result, so it kept no environment", host.Clean(key.String()))
	case len(p.Specs) == 0:
		return -1, host.Usagef("the job has no trial %s any more", host.Clean(key.String()))
	}
	p.Job.Name, p.Job.Environment.PreserveEnv, p.Job.Environment.Keep = shellName(h), config.PreserveNever, config.KeepNone
	spec := p.Specs[0]
	spec.Again = &trial.Again{Job: stored.Plan.JobName, From: req.Dir, Before: trials[0]} // the kept environment is chosen when the provider is asked
	s := &shell{Planned: p, req: req, point: shellPoint{after: event.EnvironmentSetup, what: "with the files that the trial left"}, secrets: redact.New(p.Secrets), code: -1}
	return s.run(ctx, spec)
}

func shellName(h *host.Host) string { return "shell-" + h.Now().Format("2006-01-02__15-04-05") }

// planShell plans the one trial that a request selects.
func planShell(ctx context.Context, h *host.Host, req stages.JobRequest) (*stages.Planned, trial.Spec, error) {
	none := trial.Spec{}
	req.Unused = true
	req.Overrides = append(slices.Clip(req.Overrides),
		config.Override{Path: "name", Literal: shellName(h), Origin: "rollout shell"},
		config.Override{Path: "n_attempts", Literal: 1, Origin: "rollout shell"},
	)
	l, err := stages.LoadTarget(ctx, h, req.WithoutJudges(), agent.Agent{Name: agent.Nop})
	if err != nil {
		return nil, none, err
	}
	l.Job.Environment.PreserveEnv, l.Job.Environment.Keep, l.Job.Verifier.Disable = config.PreserveNever, config.KeepNone, false
	p, err := l.Plan()
	if err == nil {
		err = checkSingle(p)
	}
	if err != nil {
		l.Close()
		return nil, none, err
	}
	return p, p.Specs[0], nil
}

// checkSingle returns an error if a plan has more than one trial.
func checkSingle(p *stages.Planned) error {
	if len(p.Specs) == 1 {
		return nil
	}
	if names := namesOf(p.Specs, func(k result.Key) string { return k.Agent }); len(names) > 1 {
		return host.Usagef("%s has several agents: choose one with --agent: %s", host.Clean(p.File), host.Joined(names))
	}
	names := namesOf(p.Specs, func(k result.Key) string { return k.Task })
	if len(names) > 20 {
		names = append(names[:20:20], "…")
	}
	return host.Usagef("%s has several tasks: choose one with --task (and --dataset): %s", host.Clean(p.File), host.Joined(names))
}

// namesOf returns the distinct names in the keys of specs, in order.
func namesOf(specs []trial.Spec, name func(result.Key) string) []string {
	var names []string
	for _, s := range specs {
		if n := name(s.Key); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}

// shell is a shell in the environment of a trial.
type shell struct {
	*stages.Planned
	req     ShellRequest
	point   shellPoint
	secrets *redact.Redactor
	dir     string // of the files that the trial leaves, until the end
	code    int
}

// run runs the trial and the shell.
func (s *shell) run(ctx context.Context, spec trial.Spec) (int, error) {
	h := s.Host
	provider, err := s.Connect(ctx, "")
	if err != nil {
		return -1, err
	}
	defer provider.Close()
	if again := spec.Again; again != nil {
		kept, err := rerun.KeptEnvironments(ctx, provider)
		if err != nil {
			return -1, err
		}
		outcome, reason := rerun.ChooseKept(again.Before, provider.Name(), kept, false)
		if reason != "" {
			if reason == rerun.NothingKept {
				reason += " (environment.preserve_env or environment.keep keeps it)"
			}
			return -1, host.Usagef("%s cannot be entered: %s", host.Clean(spec.Key.String()), host.Clean(reason))
		}
		if again.Outcome = outcome; outcome {
			s.point.what = "with the files that the agent left before the tests"
		}
	}
	if s.dir, err = os.MkdirTemp("", "rollout-shell-*"); err != nil {
		return -1, fmt.Errorf("make a directory for the trial's files: %w", err)
	}
	defer os.RemoveAll(s.dir)
	dir := filepath.Join(s.dir, filepath.FromSlash(spec.Key.Dir()))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return -1, fmt.Errorf("make a directory for the trial's files: %w", err)
	}
	models, err := s.OpenModels(true)
	if err != nil {
		return -1, err
	}
	runner := trial.NewRunner(trial.Options{
		Models: models, Provider: provider, Job: s.Job, Digests: experiment.DigestsOf(s.Job, s.Inputs()), Redactor: s.secrets, Emit: s.show, Now: h.Now, Hard: h.Hard,
	})
	out, entered, err := runner.Visit(ctx, spec, dir, trial.Visit{After: s.point.after, Enter: s.enter})
	if ctx.Err() != nil {
		if t := out.Trial.Error; t != nil && t.Type == result.EnvironmentTeardownFailed {
			host.Warnf(h.Output, "%s", host.Clean(t.Message))
		}
		return -1, host.Cancelled("cancelled: the environment is removed")
	}
	if !entered {
		s.explain(out)
		return -1, errors.New("there is no environment for a shell")
	}
	for _, w := range out.Trial.Warnings {
		host.Warnf(h.Output, "%s", host.Clean(w))
	}
	if t := out.Trial.Error; t != nil && t.Type == result.EnvironmentTeardownFailed {
		host.Warnf(h.Output, "%s", host.Clean(t.Message))
	}
	return s.code, err
}

// show reports the events before the shell begins and after it.
func (s *shell) show(e event.Event) {
	switch e.Kind {
	case event.PhaseStarted:
		line := map[event.Phase]string{
			event.EnvironmentSetup: "Starting the environment of " + e.Key.Task,
			event.AgentSetup:       "Installing the agent " + e.Key.Agent,
			event.AgentExecution:   "Running the agent " + e.Key.Agent,
			event.Verifier:         "Running the tests of " + e.Key.Task,
			event.Teardown:         "Removing the environment",
		}[e.Phase]
		if line != "" {
			s.Host.Output.Line(host.Clean(line))
		}
	case event.Progress, event.Notice:
		if e.Message != "" {
			s.Host.Output.Line(host.Clean(e.Message))
		}
	case event.Retrying:
		host.Warnf(s.Host.Output, "%s (it is tried again)", host.Clean(e.Message))
	}
}

// explain reports the error of a trial, with the relevant lines of its logs.
func (s *shell) explain(out trial.Outcome) {
	t := out.Trial
	if t.Error == nil {
		return
	}
	host.Warnf(s.Host.Output, "%s: %s", t.Error.Type, host.Clean(t.Error.Message))
	var lines []string
	if strings.TrimSpace(out.Detail) != t.Error.Message {
		lines = untrusted.Lines(out.Detail)
	}
	if _, log := report.Explain(report.Input{Files: os.DirFS(s.dir), Dir: s.dir}, t); len(lines) == 0 && !log.Empty() {
		lines = log.Lines()
	}
	for _, line := range lines {
		s.Host.Output.Line("  " + line)
	}
}

// enter runs the shell.
func (s *shell) enter(ctx context.Context, in trial.Visited) error {
	when := s.point.what
	if in.Trial.Error != nil && s.req.Dir == "" {
		s.explain(trial.Outcome{Trial: in.Trial})
		when = "after that failure"
	} else if in.Trial.Reward != nil {
		host.Linef(s.Host.Output, "The reward is %g", *in.Trial.Reward)
	}
	host.Linef(s.Host.Output, "Here is a shell in %s %s; the environment is removed when it ends", in.Environment.ID(), when)
	opts := in.Options
	if s.req.User != "" {
		opts.User = s.req.User
	}
	code, err := runShell(ctx, s.Host, in.Environment, s.req.Command, opts, s.req.Console)
	s.code = code
	return err
}

// brokenPipe is the exit code of a command whose reader is gone, as in shells: 128 plus the number
// of SIGPIPE.
const brokenPipe = 128 + int(syscall.SIGPIPE)

// execUntilGone runs a command and stops it when its output can no longer be written. If the reader
// is gone, it returns brokenPipe.
func execUntilGone(ctx context.Context, env environment.Environment, script string, opts environment.ExecOptions) (int, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ending := func(w io.Writer) io.Writer {
		if w == nil {
			return nil
		}
		return writerFunc(func(p []byte) (int, error) {
			n, err := w.Write(p)
			if err != nil {
				cancel(&outputError{err})
			}
			return n, err
		})
	}
	opts.Stdout, opts.Stderr = ending(opts.Stdout), ending(opts.Stderr)
	code, err := env.Exec(ctx, script, opts)
	var failed *outputError
	switch {
	case !errors.As(context.Cause(ctx), &failed):
		return code, err
	case errors.Is(failed.err, syscall.EPIPE):
		return brokenPipe, nil
	}
	return -1, fmt.Errorf("write the command's output: %w", failed.err)
}

// outputError means that output could not be written.
type outputError struct{ err error }

func (e *outputError) Error() string { return e.err.Error() }

// writerFunc adapts a function to io.Writer.
type writerFunc func(p []byte) (int, error)

// Write implements io.Writer.
func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// runShell runs a shell, or a command in its place, on a terminal if there is one.
func runShell(ctx context.Context, h *host.Host, env environment.Environment, command []string, opts environment.ExecOptions, c Console) (int, error) {
	script := "exec bash"
	if len(command) > 0 {
		quoted := make([]string, len(command))
		for i, arg := range command {
			quoted[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		script = strings.Join(quoted, " ")
	}
	opts.Stdin, opts.Stdout, opts.Stderr = c.Stdin, c.Stdout, c.Stderr
	if c.Terminal == nil {
		return execUntilGone(ctx, env, script, opts)
	}
	if _, ok := environment.As[environment.TerminalRunner](env); !ok {
		host.Linef(h.Output, "note: this provider has no terminals: there is no prompt, lines are not edited, and Ctrl-C ends the shell")
		return execUntilGone(ctx, env, script, opts)
	}
	terminal, restore, err := c.Terminal()
	if err != nil {
		return -1, fmt.Errorf("prepare the terminal: %w", err)
	}
	defer restore()
	if term := h.Variable("TERM"); term != "" {
		opts.Env["TERM"] = term
	}
	return environment.ExecTerminal(ctx, env, script, opts, terminal)
}
