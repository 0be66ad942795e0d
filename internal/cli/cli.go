// Package cli is the command line: the root command with its help and completion, the table of
// commands, the hidden command of the Action, and exit codes. The commands are in the packages
// below it, by the headings of the help. It decides nothing that another package could decide.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/cli/flags"
	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/providers"
	"github.com/org/rollout-action/reporters"
)

// Env is the outside world as the commands see it.
type Env = command.Env

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
	works := env.NewWorks()
	env.Stderr = works
	soft, hard = event.Watch(soft, works.Begin), event.Watch(hard, works.Begin)
	v := command.New(hard, env, version, buildVersion())
	v.Works = works
	args, v.HelpAll = askedForAll(args)
	root := newRoot(v)
	v.Arguments = runByDefault(root, v.Dir, args)
	root.SetArgs(v.Arguments)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(soft) }()
	err := asked.await(soft, hard, ended)
	if env.ClosedStdout(err) {
		err = &command.Failure{Code: command.ExitPipe}
	}
	explain(v, err)
	return exitCode(err, soft.Err() != nil)
}

// exitCode returns the exit code of a command. No other place chooses one. If the command was not
// cancelled, the code is that of a cancel only if a command that was run exited with it.
func exitCode(err error, cancelled bool) int {
	var f *command.Failure
	var wrong *host.UsageError
	var problems diag.List
	switch {
	case err == nil:
		return command.ExitOK
	case errors.As(err, &f) && f.Code == command.ExitCancelled && !cancelled && !f.Given:
		return command.ExitFailed
	case errors.As(err, &f):
		return f.Code
	case errors.As(err, &wrong), errors.As(err, &problems):
		return command.ExitUsage
	case cancelled && (errors.Is(err, context.Canceled) || errors.Is(err, host.ErrCancelled)):
		return command.ExitCancelled
	}
	return command.ExitFailed
}

// explain prints on stderr what went wrong.
func explain(v *command.Invocation, err error) {
	var f *command.Failure
	var problems diag.List
	switch {
	case err == nil, errors.As(err, &f) && f.Err == nil:
	case errors.As(err, &problems):
		v.PrintProblems(problems)
	default:
		fmt.Fprintf(v.Stderr, "rollout: %v\n", err)
	}
}

// newRoot returns the root command, with all commands below it.
func newRoot(v *command.Invocation) *cobra.Command {
	root := &cobra.Command{
		Use:   "rollout JOB_FILE",
		Short: "Evaluate agents on containerised tasks",
		Long: `Rollout runs agents on containerised tasks and reports how well they did.

"rollout job.yaml" is short for "rollout run job.yaml".
` + command.RunCodes,
		Example: `  rollout job.yaml
  rollout job.yaml --agent oracle --task 'hello-*' --n-attempts 1`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          unknownCommand,
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			v.ShowWorks(cmd)
			return flags.RefuseEmpty(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return &command.Failure{Code: command.ExitUsage}
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if number := new(strconv.NumError); errors.As(err, &number) { // whose text is strconv.ParseInt: parsing "x": invalid syntax
			return command.Usagef("%s (see %s --help)", strings.Replace(err.Error(), number.Error(), "want a whole number", 1), cmd.CommandPath())
		}
		hint := "see " + cmd.CommandPath() + " --help"
		if missing, ok := errors.AsType[*pflag.NotExistError](err); ok && missing.GetSpecifiedName() == "dry-run" && cmd.Name() == "resume" {
			hint = "rollout run JOB_FILE --resume --dry-run prints the remaining trials; " + hint
		} else if near := nearFlag(cmd, err); near != "" {
			hint = fmt.Sprintf("did you mean --%s? %s", near, hint)
		}
		return command.Usagef("%w (%s)", err, hint)
	})
	root.CompletionOptions.HiddenDefaultCmd = false
	root.Version = versionLine()
	root.SetVersionTemplate("{{.Version}}\n")
	addCommands(root, v)
	completeValues(v, root)
	groupFlags(root, v.HelpAll)
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
	if near := diag.Nearest(args[0], names); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return command.Usagef("there is neither a command nor a job file %q (%s)", args[0], hint)
}

// knownTopic checks the arguments of help, which name a command.
func knownTopic(root *cobra.Command, args []string) error {
	of, rest, err := root.Find(args)
	if err == nil && (len(rest) == 0 || of != root) {
		return nil
	}
	return unknownCommand(root, args)
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
	return diag.Nearest(word, names) != "" || !config.FileNear(file)
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
