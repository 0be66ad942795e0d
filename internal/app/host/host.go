// Package host describes the environment of a use case: paths, variables, the clock, providers,
// reporters and the output for progress. It also has the errors by which callers choose an exit
// code, and helpers that every use case needs. It knows no job.
package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/forge/github"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/providers"
	"github.com/org/rollout-action/reporters"
)

// Host is the environment of a use case. Getenv, Now, Providers, Output, Commands, GitHub and Hard
// are required.
type Host struct {
	Paths
	Variables
	Stdin io.Reader // contains the job file "-"
	Now   func() time.Time
	// FreeDisk returns how many bytes may still be written below a directory; nil: what the system
	// reports.
	FreeDisk  func(dir string) (int64, error)
	Providers providers.Table
	// Reporters are the formats of reports; nil: reporters.All.
	Reporters reporters.Table
	// Version is the version of this program if it is a released one, such as v1.2.3.
	Version string
	// Build is the version that plans record: Version, or that of the module this program was
	// installed from; "" for a development build.
	Build  string
	Output Output
	// Commands receives the commands of GitHub workflows, such as annotations.
	Commands io.Writer
	// GitHub returns what the environment and the event tell about the GitHub Actions run of this
	// process.
	GitHub func() github.Environment
	// Guard decides which files may be executed; nil: all.
	Guard Guard
	// OnLoad, if not nil, is called with a job file as soon as it is read, before anything about it
	// is reported. Its error ends the command.
	OnLoad func(*config.Loaded) error
	// Finished, if not nil, is called by Run and Resume after a job's reports are written and
	// before the provider is closed: closing may take seconds that a cancelled process does not
	// have.
	Finished func(*Finished)
	// Hard ends when even the clean-up must stop. The context passed to a use case is the soft one:
	// when it ends, the use case stops in an orderly way.
	Hard context.Context //nolint:containedctx // outlives that of calls
	// Patience multiplies the times that a cancelled job and its trials may take to end. 0 is 1.
	Patience int
}

// Formats returns the formats of reports.
func (h *Host) Formats() reporters.Table {
	if h.Reporters == nil {
		return reporters.All
	}
	return h.Reporters
}

// Output receives the progress messages of a use case. Text from outside is already safe to print,
// except in warnings of Warn. Its methods may be called concurrently.
type Output interface {
	// Line reports one event: "Reused 2 of 3 trials".
	Line(text string)
	// Warn reports a failure that is not an error of the use case.
	Warn(text string)
	// Warnings reports the warnings about a user's files.
	Warnings(diag.List)
	// View begins the live view of a job. The returned function ends it and must be called; nothing
	// else is reported until then.
	View(View) (event.Sink, func())
}

// View describes a job to the live view.
type View struct {
	Level       slog.Level // the lowest level of messages
	Metrics     []string   // as in ui.Options
	Concurrency int        // as in ui.Options
}

// Guard decides which files of a checkout may be executed. See config.Options.Admit for Admit.
type Guard interface {
	Admit(path string) (string, error)
	// AdmitCommit refuses a commit of a repository on disk whose files may not be executed. objects
	// is the directory of its objects.
	AdmitCommit(commit, objects string) error
	// Settings returns the provider_config to use in place of a job's, in which all files of this
	// machine are admitted. known are the provider's keys. It refuses settings that name files
	// elsewhere, which it cannot admit.
	Settings(known []environment.ConfigKey, cfg map[string]any) (map[string]any, error)
	// Commit returns the commit that admitted files were compared with; "" if they were not
	// compared.
	Commit() string
}

// Variables gives access to environment variables.
type Variables struct {
	Getenv  func(string) (string, bool)
	Environ func() []string // every variable, as NAME=value; nil: they are not known
}

// Variable returns the value of a variable; "" if it is not set.
func (v Variables) Variable(name string) string {
	value, _ := v.Getenv(name)
	return value
}

// AllVariables returns every variable; nil if they are not known.
func (v Variables) AllVariables() []string {
	if v.Environ == nil {
		return nil
	}
	return v.Environ()
}

// UsageError means that the request cannot be carried out as it is, and that nothing was started.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

func (e *UsageError) Unwrap() error { return e.Err }

// Usagef returns a UsageError.
func Usagef(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// ErrCancelled means that the use case was cancelled before its work began.
var ErrCancelled = errors.New("cancelled")

// Cancelled is an ErrCancelled with its own message.
type Cancelled string

func (c Cancelled) Error() string { return string(c) }

// Is reports whether target is ErrCancelled.
func (c Cancelled) Is(target error) bool { return target == ErrCancelled }

// Linef reports one event.
func Linef(to Output, format string, args ...any) { to.Line(fmt.Sprintf(format, args...)) }

// Warnf reports a failure that is not an error of the use case.
func Warnf(to Output, format string, args ...any) { to.Warn(fmt.Sprintf(format, args...)) }

// Clean returns untrusted text (names of tasks, labels) as one line that is safe to print.
func Clean(text string) string { return untrusted.Line(text) }

// LogLevel parses log_level, whose values config.Load has checked.
func LogLevel(name string) slog.Level {
	var level slog.Level
	_ = level.UnmarshalText([]byte(name))
	return level
}

// ShortCommit returns the abbreviated commit, for printing.
func ShortCommit(commit string) string {
	if len(commit) > 12 {
		return commit[:7]
	}
	return commit
}

// QuotedPath quotes a path for a shell.
func QuotedPath(path string) string { return untrusted.ShellPath(path) }

// Flag returns a command-line flag and its value with a leading space, or "" without a value.
func Flag(name, value string) string {
	if value == "" {
		return ""
	}
	return " --" + name + " " + QuotedPath(value)
}

// QuotedArgument returns an argument quoted for a shell. A flag stays one.
func QuotedArgument(arg string) string { return strings.Replace(QuotedPath("x"+arg), "x", "", 1) }

// Joined returns texts joined by commas, as one line that is safe to print.
func Joined(texts []string) string { return Clean(strings.Join(texts, ", ")) }
