package task

// Format says whose rules a task was written for.
type Format string

// The formats. The zero value means FormatRollout, too.
const (
	FormatRollout Format = "rollout" // the specification's rules
	FormatHarbor  Format = "harbor"  // those of Harbor 0.22 and its datasets
)

// Options are what a task is loaded with. The zero value is a task of Rollout's own format that gets nothing of the host.
type Options struct {
	Format Format
	// PassEnv names the variables of the host that tasks may have, and Getenv knows their values (like os.LookupEnv;
	// nil: none is set). A task may be a stranger's, so it gets no other, whatever it asks for.
	PassEnv []string
	Getenv  func(name string) (value string, set bool)
}

// Rules are what a format decides about a trial. Whoever runs a task asks for these, never for its format.
// Source of Harbor's: Harbor 0.22, src/harbor/trial/single_step.py, verifier/verifier.py, agents/oracle.py.
type Rules struct {
	// ExitCodeCounts: a verifier that does not end with 0 fails the trial, whatever reward it wrote.
	ExitCodeCounts bool
	// VerifyAfterFailure: a verifier runs although the agent failed or timed out.
	VerifyAfterFailure bool
	// JSONFirst: reward.json wins over reward.txt, not the other way round.
	JSONFirst bool
	// LenientRewards: numbers are read as Python's float and pydantic read them ("1_0", true, "0.5"). NaN and
	// infinities are refused all the same.
	LenientRewards bool
	// RunAsPrograms: test.sh and solve.sh are executed by the program that their first line names, not always by bash.
	RunAsPrograms bool
	// SolutionDirs are where the solution is in the oracle's environment; it is run from the first.
	SolutionDirs []string
	// LogDirs are the directories that everybody may write to from the start.
	LogDirs []string
}

// Rules are the rules that the task was written for.
func (t *Task) Rules() Rules {
	if t.Format == FormatHarbor {
		return Rules{
			VerifyAfterFailure: true,
			JSONFirst:          true,
			LenientRewards:     true,
			RunAsPrograms:      true,
			SolutionDirs:       []string{"/solution", "/oracle"},
			LogDirs:            []string{"/logs/agent", "/logs/verifier", "/logs/artifacts"},
		}
	}
	return Rules{
		ExitCodeCounts: true,
		SolutionDirs:   []string{"/oracle"},
		LogDirs:        []string{"/logs/agent", "/logs/verifier"},
	}
}
