package prove

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/task"
)

// Verdict is what the runs of a task came to.
type Verdict string

// The verdicts, the worst first.
const (
	Broken     Verdict = "broken"      // its solution never scores 1, or it cannot be run at all
	Flaky      Verdict = "flaky"       // its solution scores 1 in some runs only
	Trivial    Verdict = "trivial"     // doing nothing scores 1
	NoSolution Verdict = "no_solution" // there is nothing to prove it with
	Flawed     Verdict = "flawed"      // proven, but with an error that its verdict does not tell
	Unknown    Verdict = "error"       // the infrastructure failed, or a run is missing: nothing can be said of the task
	Proven     Verdict = "proven"      // its solution scored 1 in every run, doing nothing in none
)

// Verdicts are all of them, the worst first.
var Verdicts = []Verdict{Broken, Flaky, Trivial, NoSolution, Flawed, Unknown, Proven}

// Runs are a task's results. Wanted are how many runs there should be of each.
type Runs struct {
	Oracle, Nop             []result.Trial
	OracleWanted, NopWanted int
	// Offline are runs of the solution without any network, if somebody wanted to know.
	Offline []result.Trial
}

// String is how many runs of each scored 1, for people: "oracle 3/3, nop 0/1".
func (r Runs) String() string {
	var parts []string
	if len(r.Oracle) > 0 {
		parts = append(parts, "oracle "+r.OracleString())
	}
	if len(r.Nop) > 0 {
		parts = append(parts, "nop "+r.NopString())
	}
	return strings.Join(parts, ", ")
}

// OracleString and NopString are "3/3": how many of a kind's runs scored 1; "–" without any.
func (r Runs) OracleString() string { return share(r.Oracle) }

// NopString is as OracleString.
func (r Runs) NopString() string { return share(r.Nop) }

func share(trials []result.Trial) string {
	if len(trials) == 0 {
		return "–"
	}
	return fmt.Sprintf("%d/%d", tallyOf(trials)[passes], len(trials))
}

// outcome is what one run says about its task.
type outcome int

const (
	passes  outcome = iota
	fails           // by the task's own doing
	nothing         // the infrastructure failed
)

// infrastructure are errors that say nothing about the task. A failed build is not among them: it is nearly always
// the Dockerfile's doing.
var infrastructure = []result.ErrorType{
	result.EnvironmentImagePullFailed, result.EnvironmentStartFailed, result.EnvironmentResourceAllocationFailed,
	result.EnvironmentLost, result.EnvironmentTeardownFailed, result.InternalError, result.Cancelled,
}

func outcomeOf(t result.Trial) outcome {
	switch {
	case t.Passed():
		return passes
	case t.Reward != nil:
		return fails
	case t.Error == nil, slices.Contains(infrastructure, t.Error.Type):
		return nothing
	}
	return fails
}

// tally counts outcomes.
type tally map[outcome]int

func tallyOf(trials []result.Trial) tally {
	out := tally{}
	for _, t := range trials {
		out[outcomeOf(t)]++
	}
	return out
}

// judge is the verdict on a task that could be run, from its runs alone.
func judge(t *task.Task, runs Runs) Verdict {
	oracle, nop := tallyOf(runs.Oracle), tallyOf(runs.Nop)
	switch {
	case oracle[passes] > 0 && oracle[fails] > 0:
		return Flaky
	case oracle[fails] > 0:
		return Broken
	case nop[passes] > 0:
		return Trivial
	case !t.HasSolution():
		return NoSolution
	case oracle[passes] < runs.OracleWanted, nop[fails] < runs.NopWanted:
		return Unknown
	}
	return Proven
}

// scores are the outcomes of runs in words, in order: "1, 0, verifier_failed".
func scores(trials []result.Trial) string {
	const most = 10
	var out []string
	for i, t := range trials {
		switch {
		case i == most:
			return strings.Join(append(out, "…"), ", ")
		case t.Reward != nil:
			out = append(out, strconv.FormatFloat(*t.Reward, 'g', -1, 64))
		case t.Error != nil:
			out = append(out, string(t.Error.Type))
		default:
			out = append(out, "nothing")
		}
	}
	return strings.Join(out, ", ")
}

// times says how often.
func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
