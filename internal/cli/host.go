package cli

import (
	"context"
	"fmt"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/forge/github"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/output/ui"
)

// invocation is one command line with the world around it. All commands share it.
type invocation struct {
	arguments []string // of the command line, with the name of the command
	helpAll   bool     // it has --help-all
	Env
	hard   context.Context           //nolint:containedctx // outlives that of calls
	github func() github.Environment // reads the environment and the event once
	// step is the world of the Action's step, whose inputs change it; nil outside.
	step    *app.Host
	printed *app.Finished // the job whose summary was printed last
	works   *ui.Works     // all that is printed to stderr passes it
}

func newInvocation(hard context.Context, env Env) *invocation {
	return &invocation{
		Env: env, hard: hard, github: sync.OnceValue(func() github.Environment { return github.ReadEnvironment(env.Getenv) }),
	}
}

// within returns the invocation in the world of the Action's step.
func (v *invocation) within(step *app.Host) *invocation {
	inside := *v
	inside.Getenv, inside.step = step.Getenv, step
	return &inside
}

// host returns the world of a use case that shows no job.
func (v *invocation) host() *app.Host {
	return v.hostWith(output{invocation: v})
}

// hostShowing returns the world of a use case that shows running jobs in a format of --log-format.
func (v *invocation) hostShowing(format string) (*app.Host, error) {
	mode, color, err := ui.DetectMode(v.Terminal, format, v.getenv)
	if err != nil {
		return nil, usage("%w", err)
	}
	view := ui.Options{Out: v.Stderr, Mode: mode, Color: color, Now: v.Now}
	view.Width = v.size()
	return v.hostWith(output{v, view}), nil
}

// hostPrinting returns the host of hostShowing, for a command that ends with conclude and the same
// print.
func (v *invocation) hostPrinting(format string, print func(report.Input) error) (*app.Host, error) {
	host, err := v.hostShowing(format)
	if err == nil && print != nil {
		host.Finished = nil // the summary would be printed too
	}
	return host, err
}

// size returns the size of the terminal; nil: there is none.
func (e Env) size() func() (cols, rows int) {
	if e.Terminal == nil {
		return nil
	}
	return func() (cols, rows int) {
		cols, rows, err := term.GetSize(int(e.Terminal.Fd()))
		if err != nil {
			return 80, 24
		}
		return cols, rows
	}
}

// works returns a display of the progress of long operations on stderr.
func (e Env) works() *ui.Works {
	mode, _, _ := ui.DetectMode(e.Terminal, "", e.getenv) // auto always exists
	if !e.Progress {
		mode = ui.JSON
	}
	return ui.NewWorks(e.Stderr, mode, e.size())
}

// showWorks shows the progress of long operations in the format of --log-format, if the command has
// that flag.
func (v *invocation) showWorks(cmd *cobra.Command) {
	if f := cmd.Flags().Lookup("log-format"); f != nil && v.Progress {
		if mode, _, err := ui.DetectMode(v.Terminal, f.Value.String(), v.getenv); err == nil { // another one reports it
			v.works.Use(mode)
		}
	}
}

func (v *invocation) hostWith(out output) *app.Host {
	if v.step != nil {
		host := *v.step
		host.Output, host.Finished = out, v.show
		return &host
	}
	return &app.Host{
		Paths: app.Paths{Dir: v.Dir}, Variables: app.Variables{Getenv: v.Getenv, Environ: v.Environ},
		Stdin: v.Stdin, Now: v.Now, FreeDisk: v.FreeDisk,
		Providers: v.Providers, Reporters: v.Reporters, Output: out, Commands: v.Stderr, GitHub: v.github, Hard: v.hard, Patience: v.Patience,
		Finished: v.show, Version: version, Build: buildVersion(),
	}
}

func (e Env) getenv(name string) string {
	value, _ := e.Getenv(name)
	return value
}

// output writes what use cases report to stderr.
type output struct {
	*invocation
	view ui.Options
}

var _ app.Output = output{}

func (o output) Line(text string)            { fmt.Fprintln(o.Stderr, text) }
func (o output) Warn(text string)            { o.warnf("%s", text) }
func (o output) Warnings(problems diag.List) { o.printWarnings(problems) }

func (o output) View(view app.View) (event.Sink, func()) {
	opts := o.view
	opts.Level, opts.Metrics, opts.Concurrency = view.Level, view.Metrics, view.Concurrency
	show := o.works.Hide()
	sink, end := ui.New(opts)
	return sink, func() {
		end()
		show()
	}
}
