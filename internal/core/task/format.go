package task

import "github.com/org/rollout-action/internal/core/environment"

// Format is the set of rules that a task was written for.
type Format string

// The formats. The zero value means FormatRollout.
const (
	FormatRollout Format = "rollout" // the specification's rules
	FormatHarbor  Format = "harbor"  // those of Harbor 0.22 and its datasets
	// FormatTerminalBench is that of tasks with a task.yaml, as they were before terminal-bench 2.
	// Load sees it, whatever Options say, by the files of a task.
	FormatTerminalBench Format = "terminal-bench"
)

// Options are for loading tasks. The zero value is for a task of Rollout's own format that gets no
// variables of the host.
type Options struct {
	Format Format
	// PassEnv names the variables of the host that tasks may read, and Getenv returns their values
	// (like os.LookupEnv; nil: none is set). Tasks may be untrusted, so they get no other
	// variables.
	PassEnv []string
	Getenv  func(name string) (value string, set bool)
	// Unrun: the task does not run, so that a variable that is not set is no error.
	Unrun bool
	// NoJob: there is no job yet that could pass variables, so that those it would have to pass are
	// no errors either. It implies Unrun.
	NoJob bool
}

// Rules are the consequences of a format for a trial. Code that runs a task checks these, never the
// format. Source for Harbor: Harbor 0.22, src/harbor/trial/single_step.py, verifier/verifier.py,
// agents/oracle.py.
type Rules struct {
	// ExitCodeCounts: if the verifier's exit code is not 0, the trial fails, whatever the reward.
	ExitCodeCounts bool
	// VerifyAfterFailure: the verifier runs even if the agent failed or timed out.
	VerifyAfterFailure bool
	// PartialSteps: the reward of a task with steps is that of its steps with a reward, even if
	// others failed.
	PartialSteps bool
	// JSONFirst: reward.json wins over reward.txt, not vice versa.
	JSONFirst bool
	// LenientRewards: numbers are parsed like Python's float and pydantic do ("1_0", true, "0.5").
	// NaN and infinities are still refused.
	LenientRewards bool
	// Parser names the parser that makes the reward of the tests' output (package testoutput); "":
	// the tests write a reward.
	Parser string
	// TestScript and SolutionScript name the scripts in their directories.
	TestScript, SolutionScript string
	// AsTyped: both scripts run as if they were typed into a terminal: in a bash that has read the
	// profile and .bashrc.
	AsTyped bool
	// SolutionMayFail: the exit code of the solution does not count.
	SolutionMayFail bool
	// RunAsPrograms: test.sh and solve.sh run with the interpreter of their first line, not always
	// with bash.
	RunAsPrograms bool
	// SolutionDirs are the directories of the solution in the oracle's environment; it runs in the
	// first.
	SolutionDirs []string
	// LogDirs are the directories that all users may write to.
	LogDirs []string
}

// Rules returns the rules of the task's format.
func (t *Task) Rules() Rules {
	switch t.Format {
	case FormatTerminalBench:
		return t.bench.rules()
	case FormatHarbor:
		return Rules{
			TestScript: "test.sh", SolutionScript: "solve.sh",
			VerifyAfterFailure: true,
			PartialSteps:       true,
			JSONFirst:          true,
			LenientRewards:     true,
			RunAsPrograms:      true,
			SolutionDirs:       []string{environment.SolutionDir, environment.OracleDir},
			LogDirs:            []string{environment.AgentLogs, environment.VerifierLogs, environment.ArtifactLogs},
		}
	}
	return Rules{
		TestScript: "test.sh", SolutionScript: "solve.sh",
		ExitCodeCounts: true,
		SolutionDirs:   []string{environment.OracleDir},
		LogDirs:        []string{environment.AgentLogs, environment.VerifierLogs},
	}
}
