package run

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/cli/flags"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

func addChanged(cmd *cobra.Command, since *string) {
	flags.Grouped(cmd, flags.ForSelection, func(fs *pflag.FlagSet) {
		fs.StringVar(since, "changed", "", "only trials that the files changed since this commit, branch or tag can affect, by affects in the job file; outside CI also those not committed yet")
	})
}

// changesInPlan is the part of a plan's JSON about what changed.
type changesInPlan struct {
	Since   string   `json:"since"` // the commit from which changes count
	Files   []string `json:"files"`
	Why     []string `json:"why"`          // of each of the trials
	Nothing []string `json:"no_trial"`     // the files that affect no trial
	Unnamed []string `json:"all_trials"`   // those that no entry of affects names
	Left    int      `json:"not_affected"` // trials that are left out
}

// changesOf returns the part about what changed; nil if nobody asked.
func changesOf(p app.Plan) *changesInPlan {
	a := p.Affected
	if a == nil {
		return nil
	}
	c := &changesInPlan{Since: a.Base, Files: listed(a.Changed), Why: make([]string, len(p.Trials)), Nothing: listed(a.Nothing), Unnamed: listed(a.Unnamed), Left: len(a.Left)}
	for i := range p.Trials {
		c.Why[i] = a.Why(i)
	}
	return c
}

// listed returns a list that JSON encodes as [] if it is empty.
func listed(names []string) []string { return append([]string{}, names...) }

// printChanges prints which of the changed files affect no trial, and which affect all of them.
func printChanges(e command.Env, a *stages.Affected) {
	if a == nil {
		return
	}
	for _, list := range []struct {
		files []string
		what  string
	}{{a.Nothing, "no trial"}, {a.Unnamed, "all trials, as no entry of affects names files like it"}} {
		if n := len(list.files); n == 1 {
			fmt.Fprintf(e.Stdout, "\n%s can affect %s\n", untrusted.Line(list.files[0]), list.what)
		} else if n > 1 {
			fmt.Fprintf(e.Stdout, "\n%s can affect %s: %s\n", plural.Count(n, "changed file"), list.what, untrusted.Names(list.files))
		}
	}
}
