package prove

import "slices"

// Rule is a kind of finding.
type Rule struct {
	ID  string
	Doc string // the finding, for a table: no full stop
	// Always tells that a task cannot ignore the rule, because the verdict depends on it.
	Always bool
}

// TaskFormat is the rule of problems that loading a task finds.
const TaskFormat = "task-format"

// The IDs of the other rules; see Rules.
const (
	ruleOracleFails     = "oracle-fails"
	ruleFlaky           = "flaky"
	ruleNopPasses       = "nop-passes"
	ruleNoSolution      = "no-solution"
	ruleNotRun          = "not-run"
	ruleExitCode        = "exit-code"
	ruleRewardMissing   = "reward-missing"
	ruleVerifierNetwork = "verifier-network"
	ruleNetwork         = "network"
	ruleTightTimeout    = "tight-timeout"
	ruleLongTimeout     = "long-timeout"
	ruleWorkdir         = "workdir"
	ruleUnpinnedImage   = "unpinned-image"
	ruleDockerfile      = "dockerfile"
	ruleCopySource      = "copy-source"
	ruleSecret          = "secret"
	ruleCRLF            = "crlf"
	ruleStub            = "stub"
	ruleBOM             = "bom"
	ruleBashSyntax      = "bash-syntax"
	ruleShebang         = "shebang"
	ruleInstructionLeak = "instruction-leak"
	ruleSolutionInImage = "solution-in-image"
	ruleTestsInImage    = "tests-in-image"
	ruleFileName        = "file-name"
	ruleLargeFile       = "large-file"
	ruleUnread          = "unread"
	ruleLintIgnore      = "lint-ignore"
)

// Rules lists all rules, in the order of the help.
var Rules = []Rule{
	{ID: ruleOracleFails, Doc: "the solution never scores 1", Always: true},
	{ID: ruleFlaky, Doc: "the solution scores 1 in some runs only", Always: true},
	{ID: ruleNopPasses, Doc: "doing nothing scores 1", Always: true},
	{ID: ruleNoSolution, Doc: "there is no solution to prove the task with", Always: true},
	{ID: ruleNotRun, Doc: "runs failed for reasons outside of the task, or are missing", Always: true},
	{ID: TaskFormat, Doc: "problems that every command reports: missing files, wrong or unknown keys", Always: true},
	{ID: ruleExitCode, Doc: "tests/test.sh ends with an exit code that disagrees with its reward"},
	{ID: ruleRewardMissing, Doc: "tests/test.sh ends without a reward, or does when set -e ends it early, or nothing in tests/ names one"},
	{ID: ruleVerifierNetwork, Doc: "tests/ fetches something from the network that the image does not have"},
	{ID: ruleNetwork, Doc: "with --offline: the solution does not score 1 without a network"},
	{ID: ruleTightTimeout, Doc: "the solution or the tests took more than four fifths of their timeout"},
	{ID: ruleLongTimeout, Doc: "a timeout is longer than a day"},
	{ID: ruleWorkdir, Doc: "the image has no WORKDIR, so that agents begin in /"},
	{ID: ruleUnpinnedImage, Doc: "an image without a tag or digest, or with a tag that moves, such as latest"},
	{ID: ruleDockerfile, Doc: "environment/Dockerfile, or the Dockerfile of the tests' own image, cannot be read by BuildKit's parser"},
	{ID: ruleCopySource, Doc: "such a Dockerfile copies a file that its directory does not have"},
	{ID: ruleSecret, Doc: "a file has a key or token: by its issuer's checksum or, outside of tests and examples, by its form"},
	{ID: ruleCRLF, Doc: "a shell script has Windows line ends where the shell takes them for a part of a command"},
	{ID: ruleStub, Doc: "a file is as rollout new task wrote it"},
	{ID: ruleBOM, Doc: "a shell script begins with a byte order mark, which the shell takes for a part of the first line"},
	{ID: ruleBashSyntax, Doc: "a script of tests/ or solution/ that bash runs has a mistake in its syntax"},
	{ID: ruleShebang, Doc: "test.sh or solve.sh does not begin with #!"},
	{ID: ruleInstructionLeak, Doc: "the instruction sends agents to a file of solution/ or tests/, which they do not have"},
	{ID: ruleSolutionInImage, Doc: "the image keeps a copy of solve.sh or of a patch of the solution"},
	{ID: ruleTestsInImage, Doc: "the image keeps a copy of test.sh or test_outputs.py"},
	{ID: ruleFileName, Doc: "a file's name cannot be checked out on Windows or uploaded as an artifact"},
	{ID: ruleLargeFile, Doc: "a file is larger than 50 MiB"},
	{ID: ruleUnread, Doc: "the task has too many files to check them all"},
	{ID: ruleLintIgnore, Doc: "an entry of metadata.lint.ignore or lint.toml has no effect"},
}

// ruleOf returns the rule with an ID.
func ruleOf(id string) (Rule, bool) {
	i := slices.IndexFunc(Rules, func(r Rule) bool { return r.ID == id })
	if i < 0 {
		return Rule{}, false
	}
	return Rules[i], true
}

// PreventsRun reports whether a task with an error of a rule cannot run, so that it is invalid
// before anything has run. Errors of other rules concern the task's quality.
func PreventsRun(id string) bool {
	return id == TaskFormat || id == ruleDockerfile || id == ruleCopySource || id == ruleCRLF || id == ruleBOM
}
