package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/ui"
)

func (a *app) reportCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "report JOB_DIR",
		Short: "Print a job's summary again, from what is on disk",
		Long: `Print the summary of a job from the results in its folder. Works for jobs that were cancelled,
that still run or whose run was killed, too: what is missing is counted as skipped, and said. Such a
job ends it with 1, as failed trials do.
` + exitCodes,
		Example: `  rollout report jobs/2026-01-31__12-00-00
  rollout report jobs/nightly --json | jq .pass_rate`,
		Args: oneArg("a job's folder"),
		RunE: func(cmd *cobra.Command, args []string) error {
			job, err := a.report(args[0], asJSON)
			if err == nil && (job.FailedTrials > 0 || job.Cancelled) {
				return &failure{code: exitGate}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the job's result.json, made anew from the trials'")
	return cmd
}

// report prints the summary of what is in a job's folder. Every run ends here too.
func (a *app) report(dir string, asJSON bool) (result.Job, error) {
	tree, err := result.ReadTree(a.path(dir))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return result.Job{}, usage("%w (give the folder of a job, such as jobs/nightly)", err)
	}
	if err != nil {
		return result.Job{}, err
	}
	for _, unreadable := range tree.Unreadable {
		a.warnf("%v", unreadable)
	}
	job := result.Summarize(tree.Plan, tree.Trials)
	if asJSON {
		return job, a.printJSON(job)
	}
	_, err = os.Stat(filepath.Join(a.path(dir), result.ResultFile))
	color, width := a.stdoutLook()
	ui.Summary(a.Stdout, ui.SummaryInput{
		Job:     job,
		Groups:  result.Groups(tree.Plan, tree.Trials),
		Trials:  tree.Trials,
		Dir:     dir,
		Missing: err != nil && job.SkippedTrials > 0,
	}, color, width)
	return job, nil
}

// stdoutLook says how to print on stdout: with colours only on a terminal that wants them.
func (a *app) stdoutLook() (color bool, width int) {
	file, ok := a.Stdout.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return false, 100
	}
	_, color, err := ui.DetectMode(file, "auto", a.getenv)
	cols, _, sizeErr := term.GetSize(int(file.Fd()))
	if sizeErr != nil || cols <= 0 {
		cols = 80
	}
	return color && err == nil, cols
}
