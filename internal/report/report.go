package report

import (
	"io"
	"io/fs"
	"time"

	"github.com/org/rollout-action/internal/gate"
	"github.com/org/rollout-action/internal/result"
)

// Input is a finished job, ready to be reported. All text in it that came from outside (names of agents and tasks,
// messages, logs) is untrusted: see package untrusted. Secrets are redacted already.
type Input struct {
	Job    result.Job
	Plan   result.Plan
	Trials []result.Trial // in the plan's order; those without a result are missing
	Groups []result.Group
	// Files is the job's folder, for logs: <Key.Dir()>/logs/verifier/stdout.txt and so on. It may be nil.
	Files fs.FS
	// Dir is the job's folder as people are told of it.
	Dir string

	// Diff compares with the baseline; nil: there is none. Baseline says in one sentence what was compared with
	// ("main at 1a2b3c4, 2 commits before this branch began (run 123)"), or why there is nothing to compare with.
	Diff     *result.Diff
	Baseline string

	Policy  gate.Policy
	Verdict gate.Verdict
	// Incomplete says, a sentence each, what is missing from the job: a shard, results that cannot be read, a cancel.
	Incomplete []string
	// Notes are further sentences for people: why no comment is posted, how many shards were merged.
	Notes []string
	Links Links
	Now   time.Time
}

// Links are where people find more. Each is an absolute URL or "".
type Links struct {
	Run      string // the workflow run
	Artifact string // the job's folder, to be downloaded
	Commit   string // what was evaluated
	// Sha is the commit that was evaluated, for people: in a pull request the head, not the merge commit. "" if not known.
	Sha string
	// Files is the URL of a folder of the repository at that commit; a task's Path below it shows the task. "" if not known.
	Files string
}

// Reporter writes one form of report. Write is a plain function of its input: it asks nothing of the outside world,
// writes the same bytes for the same input, and may be called many times. It fails only if w does.
type Reporter interface {
	Write(w io.Writer, in Input) error
}

// Passed reports whether the job passes: the gate says so and nothing is missing. The command then ends with 0.
func (in Input) Passed() bool {
	return len(in.Incomplete) == 0 && in.Verdict.Passed(in.Policy)
}
