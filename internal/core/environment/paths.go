package environment

// The special directories of an environment, which trials fill, empty and copy. No other package
// repeats these paths.
// Source: specification, "special paths"; SolutionDir is Harbor's.
const (
	TestsDir     = "/tests" // the task's tests, there only while the verifier runs
	LogsDir      = "/logs"  // copied out at the end of every trial
	AgentLogs    = LogsDir + "/agent"
	VerifierLogs = LogsDir + "/verifier"  // with the reward
	ArtifactLogs = LogsDir + "/artifacts" // Harbor's
	OracleDir    = "/oracle"              // the solution, in the oracle's environment
	SolutionDir  = "/solution"            // the same, for Harbor's tasks
	ScriptsDir   = "/rollout"             // the agent's scripts
	JudgesDir    = "/rollout-judges"      // a directory for each judge, whose name cannot be guessed
)

// SpecialDirs returns the special directories that lie in no other: nothing of a user's may be
// mounted on them.
func SpecialDirs() []string {
	return []string{TestsDir, LogsDir, OracleDir, SolutionDir, ScriptsDir, JudgesDir}
}
