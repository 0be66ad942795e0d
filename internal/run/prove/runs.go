package prove

import (
	"fmt"
	"slices"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
)

// The files that findings about runs point to.
const (
	configFile      = "task.toml"
	instructionFile = "instruction.md"
	solutionScript  = "solution/solve.sh"
	testsScript     = "tests/test.sh"
	dockerfile      = "environment/Dockerfile"
	testsDockerfile = "tests/Dockerfile"
)

// fromRuns returns the findings in the runs of a task.
func fromRuns(t *task.Task, runs Runs) []Finding {
	var out []Finding
	out = append(out, fromOracle(runs)...)
	out = append(out, fromNop(runs)...)
	out = append(out, exitCodes(runs)...)
	out = append(out, missingRuns(t, runs)...)
	out = append(out, tightTimeouts(t, runs)...)
	out = append(out, withoutNetwork(runs)...)
	if !t.HasSolution() {
		out = append(out, Finding{Rule: ruleNoSolution, Severity: Error, File: configFile,
			Message: "there is no solution/solve.sh, so nothing shows that the task can be solved",
			Hint:    "add one that scores 1"})
	}
	return layoutOf(t).written(out)
}

func fromOracle(runs Runs) []Finding {
	counted := countOutcomes(runs.Oracle)
	switch {
	case counted[fails] == 0:
		return nil
	case counted[passes] > 0:
		return []Finding{{Rule: ruleFlaky, Severity: Error, File: testsScript, Trial: firstWith(runs.Oracle, fails).Dir(),
			Message: fmt.Sprintf("the oracle's %d runs came to %s: the same solution scores 1 only sometimes", len(runs.Oracle), scores(runs.Oracle)),
			Hint:    "compare the logs of those runs; the usual causes are time, order, chance, services that are not up yet, and ports of a network that runs share (--n-concurrent 1 tells)"}}
	}
	bad := firstWith(runs.Oracle, fails)
	f := Finding{Rule: ruleOracleFails, Severity: Error, File: testsScript, Trial: bad.Dir(),
		Message: fmt.Sprintf("the solution never scores 1: its runs came to %s", scores(runs.Oracle)),
		Hint:    "correct the solution or the tests; the output of both is in the run's directory"}
	if bad.Error != nil {
		f.File, f.Message = fileFor(bad.Error.Type), fmt.Sprintf("the solution never scores 1 (%s): %s", bad.Error.Type, bad.Error.Message)
	}
	if cause, ok := exitCode(bad, ""); ok && bad.Error != nil { // reported as a hint, not as another finding
		f.Hint = cause.Hint
	}
	return []Finding{f}
}

// firstWith returns the first of the trials with an outcome. There must be one.
func firstWith(trials []result.Trial, o outcome) result.Trial {
	return trials[slices.IndexFunc(trials, func(t result.Trial) bool { return outcomeOf(t) == o })]
}

// fileFor returns the file that most likely causes a type of error.
func fileFor(kind result.ErrorType) string {
	switch kind {
	case result.EnvironmentBuildFailed, result.EnvironmentBuildTimeout:
		return dockerfile
	case result.AgentInstallFailed, result.AgentInstallTimeout, result.AgentExecutionFailed, result.AgentExecutionTimeout:
		return solutionScript
	case result.TaskInvalid, result.TaskNotFound:
		return configFile
	}
	return testsScript
}

func fromNop(runs Runs) []Finding {
	n := countOutcomes(runs.Nop)[passes]
	if n == 0 {
		return nil
	}
	return []Finding{{Rule: ruleNopPasses, Severity: Error, File: testsScript, Trial: firstWith(runs.Nop, passes).Dir(),
		Message: fmt.Sprintf("doing nothing scores 1 (%s)", timesText(n)),
		Hint:    "test something that only the solution achieves"}}
}

// exitCodes finds verifiers whose exit code and reward contradict each other. If the dataset's
// format requires exit code 0, another code is an error of the trial, and a reward of 0 is lost.
// The cause of the failure of all runs of the solution is in that finding, and is not repeated.
func exitCodes(runs Runs) []Finding {
	known := ""
	if counted := countOutcomes(runs.Oracle); counted[fails] > 0 && counted[passes] == 0 {
		known = messageOf(firstWith(runs.Oracle, fails))
	}
	var out []Finding
	for _, group := range []struct {
		who    string
		trials []result.Trial
	}{{"after the solution", runs.Oracle}, {"after doing nothing", runs.Nop}} {
		for _, t := range group.trials {
			if f, ok := exitCode(t, group.who); ok && (known == "" || messageOf(t) != known) {
				out = append(out, f)
				break
			}
		}
	}
	return out
}

// messageOf returns the text of a trial's error; "" without one.
func messageOf(t result.Trial) string {
	if t.Error == nil {
		return ""
	}
	return t.Error.Message
}

func exitCode(t result.Trial, when string) (Finding, bool) {
	f := Finding{File: testsScript, Trial: t.Dir()}
	code, parsed := t.VerifierExitCode, t.TaskFormat == string(task.FormatTerminalBench)
	switch {
	case code == nil:
		return f, false
	case parsed && t.Error != nil && t.Error.Type == result.VerifierRewardMissing:
		f.Rule, f.Severity = ruleRewardMissing, Error
		f.Message = fmt.Sprintf("%s: %s", when, t.Error.Message)
		f.Hint = "let the tests end with the lines that the parser reads"
	case parsed: // the exit code does not count
		return f, false
	case *code != 0 && t.Passed():
		f.Rule, f.Severity = ruleExitCode, Warning
		f.Message = fmt.Sprintf("%s tests/test.sh writes the reward 1 and ends with exit code %d", when, *code)
		f.Hint = "let it end with exit 0: most harnesses take another code for a failure of the test itself"
	case *code != 0 && t.Error != nil && t.Error.Type == result.VerifierFailed:
		f.Rule, f.Severity = ruleExitCode, Error
		f.Message = fmt.Sprintf("%s: %s", when, t.Error.Message)
		f.Hint = "write the reward and always end with exit 0; otherwise an agent's failure is an error of the trial and not a reward of 0"
	case t.Error != nil && t.Error.Type == result.VerifierRewardMissing:
		f.Rule, f.Severity = ruleRewardMissing, Error
		f.Message = when + " tests/test.sh leaves no reward"
		f.Hint = "write 0 to /logs/verifier/reward.txt before it gives up"
	default:
		return f, false
	}
	return f, true
}

// missingRuns finds runs that failed for other reasons than the task, and runs that are missing.
func missingRuns(t *task.Task, runs Runs) []Finding {
	if runs.cut() {
		return nil // the report counts these tasks
	}
	var out []Finding
	for _, group := range []struct {
		who    string
		trials []result.Trial
		wanted int
	}{{"oracle", runs.Oracle, runs.OracleWanted}, {"nop", runs.Nop, runs.NopWanted}} {
		at := slices.IndexFunc(group.trials, func(t result.Trial) bool { return outcomeOf(t) == nothing })
		switch {
		case at >= 0 && group.trials[at].Error != nil:
			e := group.trials[at].Error
			out = append(out, notRun(fmt.Sprintf("a run of %s failed for reasons outside of the task (%s): %s", group.who, e.Type, e.Message)))
			out[len(out)-1].Trial = group.trials[at].Dir()
		case at >= 0:
			out = append(out, notRun(fmt.Sprintf("a run of %s was not verified", group.who)))
			out[len(out)-1].Trial = group.trials[at].Dir()
		case len(group.trials) < group.wanted && (group.who != "oracle" || t.HasSolution()):
			out = append(out, notRun(fmt.Sprintf("%d of %d runs of %s are missing", group.wanted-len(group.trials), group.wanted, group.who)))
		}
	}
	return out
}

func notRun(message string) Finding {
	return Finding{Rule: ruleNotRun, Severity: Error, Message: message, Hint: "run it again: nothing is known about the task"}
}

// withoutNetwork finds solutions that need the network, or whose verification does. If the solution
// itself does not fail, it is not known which of the two it is.
func withoutNetwork(runs Runs) []Finding {
	oracle, without := countOutcomes(runs.Oracle), countOutcomes(runs.Offline)
	if oracle[passes] == 0 || oracle[fails] > 0 || without[fails] == 0 {
		return nil
	}
	who, file := "its verifier needs the network, or its solution does", testsScript
	for _, t := range runs.Offline {
		if t.Error != nil && fileFor(t.Error.Type) == solutionScript {
			who, file = "its solution needs the network", solutionScript
		}
	}
	return []Finding{{Rule: ruleNetwork, Severity: Warning, File: file, Trial: firstWith(runs.Offline, fails).Dir(),
		Message: fmt.Sprintf("without a network the run of the solution came to %s: %s", scores(runs.Offline), who),
		Hint:    "install the dependencies while the image is built"}}
}

// worksOffline reports whether a run has shown that neither the solution nor its verification needs
// the network.
func worksOffline(runs Runs) bool {
	without := countOutcomes(runs.Offline)
	return without[passes] > 0 && without[fails] == 0
}
