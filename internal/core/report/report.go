package report

import (
	"io"
	"io/fs"
	"time"

	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/history"
	"github.com/org/rollout-action/internal/core/result"
)

// Input is a finished job, ready to be reported. All text in it that comes from outside (names of
// agents and tasks, messages, logs) is untrusted: see package untrusted. Secrets are redacted
// already.
type Input struct {
	Job    result.Job
	Plan   result.Plan
	Trials []result.Packed // in the plan's order, without those that have no result
	Groups []result.Group
	// Files is the job's directory, for logs: <Key.Dir()>/logs/verifier/stdout.txt and so on. It
	// may be nil.
	Files fs.FS
	// Dir is the job's directory as reports show it.
	Dir string

	// Diff compares with the baseline; nil without one. Baseline is a sentence that describes the
	// baseline ("main at 1a2b3c4, 2 commits before this branch began (run 123)"), or the reason why
	// there is none.
	Diff     *result.Diff
	Baseline string
	// Stored is the comparison in the verdict that the job keeps, for pages; nil with a Diff, or if
	// the verdict has none.
	Stored *result.Comparison
	// BaseFiles is the baseline's directory, as Files is the job's, and BaseDir is how reports show
	// it. They are nil and "" if only the baseline's numbers are at hand.
	BaseFiles fs.FS
	BaseDir   string

	// History are earlier jobs, the oldest first; nil if none was given. Numbers and texts in it
	// are untrusted.
	History []history.Point

	Policy  gate.Policy
	Verdict gate.Verdict
	// Versus compares agents of the job in pairs, as the key compare asks. Names are untrusted.
	Versus []gate.Versus
	// Incomplete holds a sentence for everything that is missing from the job: a shard, unreadable
	// results, a cancel.
	Incomplete []string
	// Notes are further sentences for the reader: why no comment is posted, how many shards were
	// merged.
	Notes []string
	Links Links
	Now   time.Time

	cases []Case // see WithCases
}

// Links lead to more information. Each is an absolute URL or "".
type Links struct {
	Run      string // the workflow run
	Artifact string // the job's directory, for download
	// Page is the file with the job as a page: its name if it is among the artifacts, as
	// InArtifacts says, or else its path. "" without one.
	Page        string
	InArtifacts bool
	Commit      string // what was evaluated
	// Sha is the evaluated commit as reports show it: in a pull request the head, not the merge
	// commit. "" if unknown.
	Sha string
	// Files is the URL of the repository's files at that commit; with a task's Path appended it
	// shows the task. "" if unknown.
	Files string
}

// Reporter writes one form of report. Write is a pure function of its input: it reads nothing else,
// writes the same bytes for the same input, and may be called many times. It fails only if w does.
type Reporter interface {
	Write(w io.Writer, in Input) error
}

// Passed reports whether the job passes: the gate passes or only advises, and nothing is missing.
// The exit code is then 0.
func (in Input) Passed() bool {
	return len(in.Incomplete) == 0 && in.Verdict.Passed(in.Policy)
}

// Spared reports whether the job passes only because the gate advises: its verdict would fail it.
func (in Input) Spared() bool { return in.Passed() && !in.Verdict.Satisfied(in.Policy) }

// Confidence returns the confidence level of the gate.
func (in Input) Confidence() float64 {
	if c := in.Policy.Confidence; c > 0 && c < 1 {
		return c
	}
	return gate.DefaultConfidence
}

// WaysOut returns the sentences after WaysOutLead; none unless the verdict is inconclusive.
func (in Input) WaysOut() []string {
	var out []string
	for _, w := range in.Verdict.WaysOut {
		out = append(out, w.Text)
	}
	return out
}

// BaseOf returns the attempt of the baseline to compare a trial with: one that passed, or else the
// first. ok is false if the baseline has none, or if only its numbers are at hand.
func (in Input) BaseOf(t result.Trial) (base result.Outcome, ok bool) {
	if in.Diff == nil || in.BaseFiles == nil {
		return base, false
	}
	for _, d := range in.Diff.Tasks {
		if d.Agent != t.Agent || d.Dataset != t.Dataset || d.Task != t.Task || d.Base == nil {
			continue
		}
		for o := range d.Base.Scored() {
			if o.Reward != nil && *o.Reward == 1 {
				return o, true
			}
			if !ok {
				base, ok = o, true
			}
		}
	}
	return base, ok
}
