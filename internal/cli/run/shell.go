package run

import (
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/inspect"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/cli/flags"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// shellCodes are the exit codes of shell.
const shellCodes = `
Exit codes:
  0    the shell or the command ended with 0; its other exit codes are passed on
  2    wrong usage, or an invalid file; nothing was started
  3    rollout or its infrastructure failed
  130  cancelled`

// shellOptions are the flags of shell.
type shellOptions struct {
	job      flags.Job
	tasks    flags.Tasks
	at, user string
	jobFile  string
}

// NewShellCommand returns the command shell.
func NewShellCommand(v *command.Invocation) *cobra.Command {
	var opts shellOptions
	cmd := &cobra.Command{
		Use:   "shell JOB_FILE | TASK | JOB_DIR TRIAL [-- COMMAND...]",
		Short: "Open a shell in the environment of a trial",
		Long: `Open a shell in the environment of a trial: with the image, limits, network, variables, working directory and user
of the task, and the agent's files. TASK is the directory of a task; of a job file, --task and --agent choose a trial. With
--at, the trial first runs up to there:

  setup      the environment, before the agent is installed
  installed  the agent is installed, as it is when it begins (the default); without an agent this is like setup
  executed   the agent has run
  verified   the tests have run, too

If the agent or the tests fail on the way, the shell begins where they failed. The environment is removed when the shell
ends, however it ends. On a terminal the shell has one, too, and Ctrl-C goes to it. Otherwise it reads commands from
standard input. With COMMAND, that program is run in place of the shell.

With JOB_DIR and TRIAL, a part of a trial's name, the shell is in a copy of the environment that this trial kept
(environment.preserve_env, or keep: outcome), which itself does not change.

The shell has no model: the token of an agent ends with its execute, as in a trial, so that nothing that is typed or left running
spends money outside of the trial's budget and record. With --at executed, execute itself reaches its model.
` + shellCodes,
		Example: `  rollout shell evals/fix-the-build
  rollout shell evals/fix-the-build --agent oracle --at executed
  rollout shell job.yaml --task fix-the-build --agent my-agent -- my-agent --version
  rollout shell jobs/nightly my-agent/evals/fix-the-build__1
  echo 'git status' | rollout shell evals/fix-the-build --agent oracle --at verified`,
		Args: func(cmd *cobra.Command, args []string) error {
			return opts.check(cmd, args, v.Host().Paths)
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 && host.IsJobDir(v.Host().Paths, args[0]) {
				return inspect.TrialNames(v.Host().Paths, args[0], prefix), cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			req, err := opts.request(cmd, args)
			if err != nil {
				return err
			}
			req.Console = console(v)
			code, err := app.Shell(cmd.Context(), v.Host(), req)
			if err == nil && code != 0 {
				return &command.Failure{Code: code, Given: true}
			}
			return err
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&opts.at, "at", app.DefaultShellPoint, "where in the trial the shell begins: "+strings.Join(app.ShellPoints(), ", "))
	fs.StringVar(&opts.user, "user", "", "the user of the shell (default: the trial's at that point)")
	flags.AddJobFile(cmd, &opts.jobFile)
	flags.Wants(fs, "at", "want one of "+strings.Join(app.ShellPoints(), ", "))
	opts.job.AddSelection(cmd)
	opts.tasks.Add(cmd)
	_ = cmd.RegisterFlagCompletionFunc("at", cobra.FixedCompletions(app.ShellPoints(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// check refuses arguments and flags that do not go together.
func (o *shellOptions) check(cmd *cobra.Command, args []string, paths host.Paths) error {
	targets, _ := splitAtDash(cmd, args)
	switch {
	case len(targets) > 2, len(targets) == 2 && !host.IsJobDir(paths, targets[0]):
		return command.Usagef("%s takes one job file or task, or a job's directory and a part of a trial's name, got %d: %s (see %s --help)", cmd.CommandPath(), len(targets), strings.Join(targets, " "), cmd.CommandPath())
	case len(targets) == 2 && targets[1] == "":
		return command.Usagef("%s: the name of the trial is empty: give a part of it", cmd.CommandPath())
	case len(targets) == 1 && host.IsJobDir(paths, targets[0]):
		return command.Usagef("%s is the directory of a job: give a part of a trial's name, too", untrusted.Line(targets[0]))
	}
	for _, name := range []string{"at", "agent", "task", "dataset", "env-type", "set"} {
		if len(targets) == 2 && cmd.Flags().Changed(name) {
			return command.Usagef("--%s is not for an environment that was kept: it is as its trial left it", name)
		}
	}
	if len(targets) < 2 && o.jobFile != "" {
		return command.Usagef("--job-file is for a job's directory; give the job file as the argument")
	}
	return nil
}

// request returns what a command line asks for.
func (o *shellOptions) request(cmd *cobra.Command, args []string) (req app.ShellRequest, err error) {
	targets, command := splitAtDash(cmd, args)
	req = app.ShellRequest{At: o.at, User: o.user, Command: command}
	if req.Job, err = o.job.Request(""); err != nil {
		return req, err
	}
	if len(targets) == 2 {
		req.Dir, req.Trial, req.At, req.JobFile = targets[0], targets[1], "", o.jobFile
		return req, nil
	}
	return req, o.tasks.Set(&req.Job, targets)
}

// splitAtDash returns the arguments before and after --.
func splitAtDash(cmd *cobra.Command, args []string) (before, after []string) {
	at := cmd.ArgsLenAtDash()
	if at < 0 {
		return args, nil
	}
	return args[:at], args[at:]
}

// console returns where a shell reads and writes: on a terminal if standard input and output are
// one.
func console(v *command.Invocation) app.Console {
	c := app.Console{Stdin: v.Stdin, Stdout: v.Stdout, Stderr: v.Stderr}
	in, isFile := v.Stdin.(*os.File)
	out, isFileToo := v.Stdout.(*os.File)
	if !isFile || !isFileToo || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
		return c
	}
	c.Terminal = func() (environment.Terminal, func(), error) {
		before, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			return environment.Terminal{}, nil, err
		}
		resized := make(chan environment.TerminalSize)
		changes := make(chan os.Signal, 1)
		signal.Notify(changes, syscall.SIGWINCH)
		done := make(chan struct{})
		go func() {
			for {
				select {
				case <-changes:
				case <-done:
					return
				}
				select {
				case resized <- sizeOf(out):
				case <-done:
					return
				}
			}
		}()
		return environment.Terminal{Size: sizeOf(out), Resized: resized}, func() {
			signal.Stop(changes)
			close(done)
			_ = term.Restore(int(in.Fd()), before)
		}, nil
	}
	return c
}

// sizeOf returns the size of a terminal; the zero value if it is not known.
func sizeOf(terminal *os.File) environment.TerminalSize {
	columns, rows, err := term.GetSize(int(terminal.Fd()))
	if err != nil || columns <= 0 || rows <= 0 {
		return environment.TerminalSize{}
	}
	return environment.TerminalSize{Columns: uint16(min(columns, 1<<16-1)), Rows: uint16(min(rows, 1<<16-1))}
}
