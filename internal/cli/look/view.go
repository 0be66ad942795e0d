package look

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/library"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/output/viewer"
)

// viewOptions are the flags of view.
type viewOptions struct {
	port   int
	open   bool
	export string
}

// NewViewCommand returns the command view.
func NewViewCommand(v *command.Invocation) *cobra.Command {
	var opts viewOptions
	cmd := &cobra.Command{
		Use:   "view [JOBS_DIR | JOB | FILE.zip]",
		Short: "Look at jobs in a browser: every log, conversation and file, live while a job runs",
		Long: `Serve pages about jobs to the browser of this machine, until Ctrl-C: an index of the jobs, a page for each job, and a page for each
trial with its whole conversation, its logs and all its files. The page of a job that runs is loaded again when there is something new.

JOBS_DIR is a directory of jobs, or one into which artifacts of workflows were downloaded, as archives or unpacked; without it, jobs/ is shown.
JOB is a job's directory, or its name below jobs/. FILE.zip is an artifact as it was downloaded.

The server only reads. It listens on the loopback device, and the address that is printed has a random token: programs and pages
that do not know it get nothing.

With --export, nothing is served: the same pages are written as files, for GitHub Pages or any other server of files. Pages of trials have the
ends of logs then.
` + command.DoneCodes,
		Example: `  rollout view --open
  rollout view jobs/nightly --port 8080
  rollout view rollout-jobs.zip
  rollout view --export site`,
		Args: command.MaybeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			return view(cmd.Context(), v, args, opts)
		},
	}
	cmd.Flags().StringVar(&opts.export, "export", "", "write the pages as files into this directory, which must be empty or an earlier export")
	cmd.Flags().IntVar(&opts.port, "port", 0, "listen on this port; 0: a free one")
	cmd.Flags().BoolVar(&opts.open, "open", false, "open the address in the browser")
	return cmd
}

// view serves pages until it is cancelled.
func view(ctx context.Context, v *command.Invocation, args []string, opts viewOptions) error {
	path := host.JobsDir
	if len(args) > 0 {
		path = v.Host().NamedJob(args[0])
	}
	if opts.export != "" && (opts.open || opts.port != 0) {
		return command.Usagef("--export writes files and serves nothing: leave out --open and --port, or --export")
	}
	if opts.port < 0 || opts.port > 65535 {
		return command.Usagef("--port %d: want a number up to 65535, or 0 for a free port", opts.port)
	}
	if opts.export != "" {
		return exportSite(ctx, v, library.SiteRequest{Path: path, Default: len(args) == 0, To: opts.export})
	}
	jobs, err := library.OpenLibrary(v.Host(), path, len(args) == 0)
	if err != nil {
		return err
	}
	defer jobs.Close()
	listener, err := viewer.Listen(ctx, opts.port)
	if err != nil {
		return command.Usagef("--port %d: %w", opts.port, err)
	}
	defer listener.Close()
	server := viewer.New(jobs, jobs.Title(), listener.Addr())
	address := server.URL(jobs.Single())
	if _, err := fmt.Fprintln(v.Stdout, address); err != nil {
		return err
	}
	if opts.open {
		openBrowser(ctx, address, func(err error) { v.Warnf("cannot open a browser (%v): open the address above", err) })
	}
	if len(args) == 0 && !isThere(v, path) {
		fmt.Fprintln(v.Stderr, library.NoJobsYet(path))
	}
	fmt.Fprintln(v.Stderr, "Serving until Ctrl-C. Everyone with this address can read the results.")
	if err := server.Serve(ctx, listener); !errors.Is(err, context.Canceled) {
		return err
	}
	return &command.Failure{Code: command.ExitCancelled}
}

// isThere reports whether a file or directory exists.
func isThere(v *command.Invocation, path string) bool {
	_, err := os.Stat(v.Host().Path(path))
	return !errors.Is(err, fs.ErrNotExist)
}

// exportSite writes pages as files.
func exportSite(ctx context.Context, v *command.Invocation, req library.SiteRequest) error {
	done, err := library.ExportSite(ctx, v.Host(), req)
	if err != nil {
		return err
	}
	if done.Unreadable > 0 {
		v.Warnf("%s cannot be read, and have no page: the index says why", plural.Count(done.Unreadable, "job"))
	}
	if done.LeftOut > 0 {
		v.Warnf("%s of older jobs %s no page, so that the site stays small", plural.Count(done.LeftOut, "trial"), plural.Have(done.LeftOut))
	}
	_, err = fmt.Fprintf(v.Stdout, "Wrote %s and %s to %s\n", plural.Count(done.Jobs, "job"), plural.Count(done.Trials, "trial"), untrusted.ShellPath(req.To))
	return err
}
