// Package command has what all commands share: the invocation with the world around it, what stdout
// and stderr get, checks of arguments, and errors with exit codes. It knows no command.
package command

import (
	"context"
	"fmt"
	"sync"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/forge/github"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/output/ui"
)

// Invocation is one command line with the world around it. All commands share it.
type Invocation struct {
	Arguments []string // of the command line, with the name of the command
	HelpAll   bool     // it has --help-all
	version   string   // of the release; "" if this is none
	build     string   // the version of this program, if it is known
	Env
	hard   context.Context           //nolint:containedctx // outlives that of calls
	github func() github.Environment // reads the environment and the event once
	// step is the world of the Action's step, whose inputs change it; nil outside.
	step    *host.Host
	printed *host.Finished // the job whose summary was printed last
	Works   *ui.Works      // all that is printed to stderr passes it
}

// New returns an invocation in this world. version is that of the release, build that of the
// program; both may be "". When hard ends, a command ends at once.
func New(hard context.Context, env Env, version, build string) *Invocation {
	return &Invocation{
		version: version, build: build,
		Env: env, hard: hard, github: sync.OnceValue(func() github.Environment { return github.ReadEnvironment(env.Getenv) }),
	}
}

// Within returns the invocation in the world of the Action's step.
func (v *Invocation) Within(step *host.Host) *Invocation {
	inside := *v
	inside.Getenv, inside.step = step.Getenv, step
	return &inside
}

// Host returns the world of a use case that shows no job.
func (v *Invocation) Host() *host.Host {
	return v.hostWith(output{Invocation: v})
}

// HostShowing returns the world of a use case that shows running jobs in a format of --log-format.
func (v *Invocation) HostShowing(format string) (*host.Host, error) {
	mode, color, err := ui.DetectMode(v.Terminal, format, v.Variable)
	if err != nil {
		return nil, Usagef("%w", err)
	}
	view := ui.Options{Out: v.Stderr, Mode: mode, Color: color, Now: v.Now}
	view.Width = v.size()
	return v.hostWith(output{v, view}), nil
}

// HostPrinting returns the host of HostShowing, for a command that ends with Conclude and the same
// print.
func (v *Invocation) HostPrinting(format string, print func(report.Input) error) (*host.Host, error) {
	host, err := v.HostShowing(format)
	if err == nil && print != nil {
		host.Finished = nil // the summary would be printed too
	}
	return host, err
}

// ShowWorks shows the progress of long operations in the format of --log-format, if the command has
// that flag.
func (v *Invocation) ShowWorks(cmd *cobra.Command) {
	if f := cmd.Flags().Lookup("log-format"); f != nil && v.Progress {
		if mode, _, err := ui.DetectMode(v.Terminal, f.Value.String(), v.Variable); err == nil { // another one reports it
			v.Works.Use(mode)
		}
	}
}

func (v *Invocation) hostWith(out output) *host.Host {
	if v.step != nil {
		host := *v.step
		host.Output, host.Finished = out, v.show
		return &host
	}
	return &host.Host{
		Paths: host.Paths{Dir: v.Dir}, Variables: host.Variables{Getenv: v.Getenv, Environ: v.Environ},
		Stdin: v.Stdin, Now: v.Now, FreeDisk: v.FreeDisk,
		Providers: v.Providers, Reporters: v.Reporters, Output: out, Commands: v.Stderr, GitHub: v.github, Hard: v.hard, Patience: v.Patience,
		Finished: v.show, Version: v.version, Build: v.build,
	}
}

// output writes what use cases report to stderr.
type output struct {
	*Invocation
	view ui.Options
}

var _ host.Output = output{}

func (o output) Line(text string)            { fmt.Fprintln(o.Stderr, text) }
func (o output) Warn(text string)            { o.Warnf("%s", text) }
func (o output) Warnings(problems diag.List) { o.PrintWarnings(problems) }

func (o output) View(view host.View) (event.Sink, func()) {
	opts := o.view
	opts.Level, opts.Metrics, opts.Concurrency = view.Level, view.Metrics, view.Concurrency
	show := o.Works.Hide()
	sink, end := ui.New(opts)
	return sink, func() {
		end()
		show()
	}
}
