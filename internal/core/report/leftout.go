package report

import (
	"fmt"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
)

// LeftOut returns a sentence about the trials that a job left out because of what changed, also in
// the report of one shard; "" if nobody asked for that.
func LeftOut(job result.Job) string {
	left := job.NotAffected
	if job.Unchanged != "" {
		total := job.TotalTrials
		if left != nil {
			total += left.Trials
		}
		return fmt.Sprintf("Nothing that the agents or tasks depend on has changed since %s: 0 of %s ran.", shortCommit(job.Unchanged), Plural(total, "trial"))
	}
	if left == nil {
		return ""
	}
	since, total := shortCommit(left.Since), max(left.Affected, job.TotalTrials)+left.Trials
	switch {
	case job.NothingAffected():
		return fmt.Sprintf("Nothing that the agents or tasks depend on has changed since %s: 0 of %s ran.", since, Plural(total, "trial"))
	case left.Trials == 0:
		return fmt.Sprintf("What changed since %s (%s) can affect all trials, so that none is left out.", since, Plural(left.Files, "file"))
	case left.Trials == 1:
		return fmt.Sprintf("1 of %s is not affected by what changed since %s (%s), and was not run.", Plural(total, "trial"), since, Plural(left.Files, "file"))
	}
	return fmt.Sprintf("%s of %s are not affected by what changed since %s (%s), and were not run.", Count(left.Trials), Plural(total, "trial"), since, Plural(left.Files, "file"))
}

// NotSelected returns a sentence about the tasks of the baseline that a job did not select; "" if
// it selected all of them.
func NotSelected(diff result.Diff) string {
	if diff.NotSelected == 0 {
		return ""
	}
	return fmt.Sprintf("%s of the baseline %s not selected for this job.", Plural(diff.NotSelected, "task"), plural.Were(diff.NotSelected))
}

// shortCommit abbreviates a commit.
func shortCommit(commit string) string {
	if len(commit) > 12 {
		return commit[:7]
	}
	return commit
}
