package reward

import (
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task/testoutput"
	"github.com/org/rollout-action/internal/run/trial/failure"
)

// Parsed returns the verdict of tests that ended with code: 1 if all tests passed that a parser
// finds in their output, else 0. It fails with verifier_reward_missing if it finds none. script
// names the script that ran them, and where the files with the output.
// Source: terminal-bench 0.2.18, harness/harness.py, _is_resolved.
func Parsed(parser, output, script string, code int, where string) (Verdict, *failure.Error) {
	tests, err := testoutput.Parse(parser, output)
	switch {
	case err != nil:
		return Verdict{}, failure.Newf(result.VerifierRewardMissing, "%s ended with exit code %d, and the parser %s (parser_name in task.yaml) finds no result in its output: %v: see %s",
			script, code, parser, err, where)
	case tests.Passed():
		return Verdict{Reward: 1}, nil
	}
	return Verdict{}, nil
}
