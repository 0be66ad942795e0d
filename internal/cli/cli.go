// Package cli is the command line: flags, wiring, exit codes. It knows every other package, and
// decides nothing that one of them could decide.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/providers"
	"github.com/org/rollout-action/reporters"
)

// The exit codes. Source: design, "Exit codes".
const (
	exitOK        = 0
	exitGate      = 1
	exitUsage     = 2
	exitFailed    = 3
	exitCancelled = 130
	// exitPipe is that of a command whose reader went away (| head), as if SIGPIPE had ended it.
	exitPipe = 128 + int(syscall.SIGPIPE)
)

// Env is the outside world as the commands see it.
type Env struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Getenv func(string) (string, bool)
	// Environ is every variable, as NAME=value. nil: they are not known.
	Environ func() []string
	Dir     string // the current directory; "" is the process's
	Now     func() time.Time
	// Terminal is stderr when it is one, else nil.
	Terminal *os.File
	// Progress: what takes longer than two seconds is shown on stderr, apart from running jobs,
	// which always are. Tests are without it, because what they print must not depend on how fast
	// the machine is.
	Progress bool
	// FreeDisk is how many bytes may still be written below a directory. nil: what the system says.
	FreeDisk func(dir string) (int64, error)
	// Patience multiplies the times that a cancelled job may take to end; 0 means 1. Tests of
	// outcomes rather than of timing set it high.
	Patience int
	// Providers are those that jobs can choose; nil: providers.All.
	Providers providers.Table
	// Reporters are the formats of reports; nil: reporters.All.
	Reporters reporters.Table
}

// System returns the real outside world.
func System() Env {
	e := Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.LookupEnv, Environ: os.Environ, Now: time.Now, Providers: providers.All, Reporters: reporters.All, Progress: true}
	if term.IsTerminal(int(os.Stderr.Fd())) {
		e.Terminal = os.Stderr
	}
	return e
}

// Main runs one command line and returns the process's exit code. When soft ends, the command stops
// in good order; when hard ends, at once. A command that does neither is left running; see
// connections.await.
func Main(soft, hard context.Context, env Env, args []string) int {
	if env.Providers == nil {
		env.Providers = providers.All
	}
	if env.Reporters == nil {
		env.Reporters = reporters.All
	}
	var asked connections
	env.Providers = asked.watch(env.Providers)
	works := env.works()
	env.Stderr = works
	soft, hard = event.Watch(soft, works.Begin), event.Watch(hard, works.Begin)
	v := newInvocation(hard, env)
	v.works = works
	args, v.helpAll = askedForAll(args)
	root := v.root()
	v.arguments = runByDefault(root, v.Dir, args)
	root.SetArgs(v.arguments)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(soft) }()
	err := asked.await(soft, hard, ended)
	if env.closedStdout(err) {
		err = &failure{code: exitPipe}
	}
	v.explain(err)
	return exitCode(err, soft.Err() != nil)
}

// failure is an error that knows its exit code.
type failure struct {
	code  int
	given bool  // by a command that was run, which may have any
	err   error // nil: everything was printed already
}

func (f *failure) Error() string {
	if f.err == nil {
		return fmt.Sprintf("exit code %d", f.code)
	}
	return f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }

// exitCode returns the exit code of a command. No other place chooses one. If the command was not
// cancelled, the code is that of a cancel only if a command that was run exited with it.
func exitCode(err error, cancelled bool) int {
	var f *failure
	var wrong *app.UsageError
	var problems diag.List
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &f) && f.code == exitCancelled && !cancelled && !f.given:
		return exitFailed
	case errors.As(err, &f):
		return f.code
	case errors.As(err, &wrong), errors.As(err, &problems):
		return exitUsage
	case cancelled && (errors.Is(err, context.Canceled) || errors.Is(err, app.ErrCancelled)):
		return exitCancelled
	}
	return exitFailed
}

// closedStdout reports whether err means that the reader of stdout has closed it.
func (e Env) closedStdout(err error) bool {
	file, ok := e.Stdout.(*os.File)
	failed, isPath := errors.AsType[*fs.PathError](err)
	return ok && isPath && failed.Path == file.Name() && errors.Is(failed, syscall.EPIPE)
}

// explain prints on stderr what went wrong.
func (v *invocation) explain(err error) {
	var f *failure
	var problems diag.List
	switch {
	case err == nil, errors.As(err, &f) && f.err == nil:
	case errors.As(err, &problems):
		v.printProblems(problems)
	default:
		fmt.Fprintf(v.Stderr, "rollout: %v\n", err)
	}
}

// clean makes text that may be hostile (names of tasks, labels) fit for one line of a terminal.
func clean(text string) string { return untrusted.Line(text) }

func (e Env) warnf(format string, args ...any) {
	fmt.Fprintf(e.Stderr, "warning: %s\n", clean(fmt.Sprintf(format, args...)))
}

// shown returns the path of a user's file for messages: from the current directory, if the file is
// below it.
func (v *invocation) shown(file string) string { return v.host().Shown(file) }

func (v *invocation) printWarnings(problems diag.List) {
	for _, p := range problems.Warnings() {
		p.File = v.shown(p.File)
		fmt.Fprintln(v.Stderr, p)
	}
}

func (v *invocation) printProblems(problems diag.List) {
	for _, p := range problems {
		p.File = v.shown(p.File)
		fmt.Fprintln(v.Stderr, p)
	}
	if n := len(problems.Errors()); n > 0 {
		fmt.Fprintf(v.Stderr, "%s, nothing was started\n", plural.Count(n, "problem"))
	}
}

// usage returns an error of the command line itself.
func usage(format string, args ...any) error {
	return &app.UsageError{Err: fmt.Errorf(format, args...)}
}

const exitCodes = `
Exit codes:
  0    done, and the gate passed; without a gate: every trial has a verdict, or was lost by its agent
  1    done, but the gate failed, or results are missing; without a gate: a trial has no verdict, or an agent has no reward
  2    wrong usage or an invalid job file; nothing was started
  3    rollout or its infrastructure failed
  130  cancelled; a partial result.json is written`

// doneCodes are the exit codes of commands that judge nothing and run no trial.
const doneCodes = `
Exit codes:
  0    done
  2    wrong usage, or an invalid file
  3    rollout failed, or something that it needs
  130  cancelled`

// proofCodes are the exit codes of validate.
const proofCodes = `
Exit codes:
  0    no problem found; with --run: every task is proven
  1    with --run: a task is not proven
  2    wrong usage, or without --run: there are problems
  3    rollout or its infrastructure failed
  130  cancelled`

func (v *invocation) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "rollout JOB_FILE",
		Short: "Evaluate agents on containerised tasks",
		Long: `Rollout runs agents on containerised tasks and reports how well they did.

"rollout job.yaml" is short for "rollout run job.yaml".
` + exitCodes,
		Example: `  rollout job.yaml
  rollout job.yaml --agent oracle --task 'hello-*' --n-attempts 1`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          unknownCommand,
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			v.showWorks(cmd)
			return refuseEmpty(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return &failure{code: exitUsage}
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if number := new(strconv.NumError); errors.As(err, &number) { // whose text is strconv.ParseInt: parsing "x": invalid syntax
			return usage("%s (see %s --help)", strings.Replace(err.Error(), number.Error(), "want a whole number", 1), cmd.CommandPath())
		}
		hint := "see " + cmd.CommandPath() + " --help"
		if missing, ok := errors.AsType[*pflag.NotExistError](err); ok && missing.GetSpecifiedName() == "dry-run" && cmd.Name() == "resume" {
			hint = "rollout run JOB_FILE --resume --dry-run prints what is left; " + hint
		} else if near := nearFlag(cmd, err); near != "" {
			hint = fmt.Sprintf("did you mean --%s? %s", near, hint)
		}
		return usage("%w (%s)", err, hint)
	})
	root.CompletionOptions.HiddenDefaultCmd = false
	root.Version = versionLine()
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddCommand(
		newRunCommand(v),
		newResumeCommand(v),
		newValidateCommand(v),
		newPlanCommand(v),
		newMergeCommand(v),
		newReportCommand(v),
		newDiffCommand(v),
		newLsCommand(v),
		newShowCommand(v),
		newShellCommand(v),
		newVerifyCommand(v),
		newRejudgeCommand(v),
		newJudgesCommand(v),
		newExportCommand(v),
		newInitCommand(v),
		newNewCommand(v),
		newCompareCommand(v),
		newHistoryCommand(v),
		newViewCommand(v),
		newDatasetsCommand(v),
		newAgentsCommand(v),
		newCacheCommand(v),
		newCleanCommand(v),
		newSchemaCommand(v),
		newVersionCommand(v),
		newActionCommand(v),
	)
	v.completeValues(root)
	groupCommands(root)
	groupFlags(root, v.helpAll)
	return root
}

// nearFlag returns the flag that the user probably meant by one that does not exist, or "".
func nearFlag(cmd *cobra.Command, err error) string {
	missing, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || len(missing.GetSpecifiedName()) < 2 {
		return ""
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return diag.Nearest(missing.GetSpecifiedName(), names)
}

// unknownCommand checks the arguments of the root command, which takes none.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	hint := "rollout init makes an example"
	if near := nearCommand(args[0], names); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return usage("there is neither a command nor a job file %q (%s)", args[0], hint)
}

// nearCommand returns the command that the user probably meant by a word, or "": one with a similar
// name, or the only one that begins with the word.
func nearCommand(word string, names []string) string {
	if near := diag.Nearest(word, names); near != "" {
		return near
	}
	begin := slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, word) })
	if len(begin) != 1 {
		return ""
	}
	return begin[0]
}

// misspelt reports whether a word is rather a command than a job file: it looks like one, and there
// is no such file, nor one with a similar name. dir is the current directory.
func misspelt(root *cobra.Command, dir, word string) bool {
	if strings.HasPrefix(word, "-") || strings.ContainsAny(word, "./\\") {
		return false
	}
	file := filepath.Join(dir, word)
	if _, err := os.Stat(file); err == nil {
		return false
	}
	var names []string
	for _, c := range root.Commands() {
		names = append(names, c.Name())
	}
	return nearCommand(word, names) != "" || !config.FileNear(file)
}

// runByDefault puts "run" before a command line that names no command. dir is the current
// directory; "" is the process's.
func runByDefault(root *cobra.Command, dir string, args []string) []string {
	if len(args) == 0 {
		return args
	}
	switch first := args[0]; {
	case first == "-h" || first == "--help" || first == "help" || first == "completion" || first == "--version",
		first == cobra.ShellCompRequestCmd, first == cobra.ShellCompNoDescRequestCmd:
		return args
	}
	for _, c := range root.Commands() {
		if c.Name() == args[0] || c.HasAlias(args[0]) {
			return args
		}
	}
	if misspelt(root, dir, args[0]) {
		return args // cobra says which command may be meant
	}
	return append([]string{"run"}, args...)
}
