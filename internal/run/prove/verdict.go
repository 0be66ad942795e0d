package prove

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
)

// Verdict is the judgement of a task by its runs.
type Verdict string

// The verdicts, the worst first.
const (
	Broken     Verdict = "broken"      // the solution never scores 1, or the task cannot run
	Flaky      Verdict = "flaky"       // the solution scores 1 in some runs only
	Trivial    Verdict = "trivial"     // doing nothing scores 1
	NoSolution Verdict = "no_solution" // there is no solution to prove the task with
	Flawed     Verdict = "flawed"      // proven, but with an error in its findings
	Unknown    Verdict = "error"       // the infrastructure failed, or a run is missing: nothing is known about the task
	NotRun     Verdict = "not_run"     // the command was interrupted before all runs of the task had ended
	Proven     Verdict = "proven"      // the solution scored 1 in every run, and doing nothing in none
)

// Verdicts lists all verdicts, the worst first.
var Verdicts = []Verdict{Broken, Flaky, Trivial, NoSolution, Flawed, Unknown, NotRun, Proven}

// Runs holds a task's results, and the planned number of each.
type Runs struct {
	Oracle, Nop             []result.Trial
	OracleWanted, NopWanted int
	// Offline has runs of the solution without any network (--offline).
	Offline []result.Trial
	// Interrupted: the command was interrupted, which explains runs that are missing or cancelled.
	Interrupted bool
}

// cut reports whether runs are missing or were cancelled because of an interruption, and nothing
// else is wrong with those that say nothing about the task.
func (r Runs) cut() bool {
	return r.Interrupted && !slices.ContainsFunc(slices.Concat(r.Oracle, r.Nop), func(t result.Trial) bool {
		return outcomeOf(t) == nothing && !wasCancelled(t)
	})
}

func wasCancelled(t result.Trial) bool { return t.Error != nil && t.Error.Type == result.Cancelled }

// String returns the number of runs of each agent that scored 1, as in "oracle 3/3, nop 0/1".
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

// OracleString returns the number of runs of the oracle that scored 1, as in "3/3", or "–" without
// any.
func (r Runs) OracleString() string { return share(r.Oracle) }

// NopString is OracleString for the runs of nop.
func (r Runs) NopString() string { return share(r.Nop) }

func share(trials []result.Trial) string {
	if len(trials) == 0 {
		return "–"
	}
	return fmt.Sprintf("%d/%d", countOutcomes(trials)[passes], len(trials))
}

// outcome classifies one run by its evidence about the task.
type outcome int

const (
	passes  outcome = iota
	fails           // because of the task
	nothing         // the infrastructure failed
)

// infrastructure lists errors that show nothing about the task. A failed build is not among them:
// the Dockerfile nearly always causes it.
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

// outcomeCounts holds the number of runs by outcome.
type outcomeCounts map[outcome]int

func countOutcomes(trials []result.Trial) outcomeCounts {
	out := outcomeCounts{}
	for _, t := range trials {
		out[outcomeOf(t)]++
	}
	return out
}

// verdictOf returns the verdict on a task that could run, from its runs alone.
func verdictOf(t *task.Task, runs Runs) Verdict {
	oracle, nop := countOutcomes(runs.Oracle), countOutcomes(runs.Nop)
	switch {
	case oracle[passes] > 0 && oracle[fails] > 0:
		return Flaky
	case oracle[fails] > 0:
		return Broken
	case nop[passes] > 0:
		return Trivial
	case !t.HasSolution():
		return NoSolution
	case oracle[passes] >= runs.OracleWanted && nop[fails] >= runs.NopWanted:
		return Proven
	case runs.cut():
		return NotRun
	}
	return Unknown
}

// scores returns the outcomes of runs in words, in order: "1, 0, verifier_failed".
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

// timesText returns "once" or "N times".
func timesText(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
