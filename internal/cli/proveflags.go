package cli

import (
	"github.com/spf13/cobra"
)

// proveFlags are the flags of validate that are about running tasks.
type proveFlags struct {
	run           bool
	runs, nopRuns int
}

func (f *proveFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.run, "run", false, "prove the tasks: run their solutions, and nothing at all, and see what that scores")
	flags.IntVar(&f.runs, "runs", 3, "with --run: how often the solution of each task is run")
	flags.IntVar(&f.nopRuns, "nop-runs", 1, "with --run: how often each task is run without doing anything")
}

// check refuses flags that mean nothing together.
func (f *proveFlags) check(job jobFlags) error {
	for _, flag := range []string{"agent", "n-attempts"} {
		if job.changed(flag) {
			return usage("--%s has no meaning with --run, which runs oracle and nop: see --runs and --nop-runs", flag)
		}
	}
	if f.runs < 1 || f.nopRuns < 1 {
		return usage("--runs and --nop-runs want at least 1")
	}
	return nil
}
