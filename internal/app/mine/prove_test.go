package mine

import (
	"testing"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/mine"
	"github.com/org/rollout-action/internal/run/prove"
)

// What fails the proof has a reason that says how.
func TestJudge(t *testing.T) {
	passed := result.Trial{Reward: new(1.0)}
	failed := result.Trial{Reward: new(0.0)}
	ended := func(kind result.ErrorType) result.Trial {
		return result.Trial{Error: &result.Error{Type: kind, Message: "it said\x1b[31m no"}}
	}
	for _, tc := range []struct {
		name    string
		verdict prove.Verdict
		runs    prove.Runs
		want    mine.Reason
	}{
		{"proven", prove.Proven, prove.Runs{Oracle: []result.Trial{passed}, Offline: []result.Trial{passed}}, mine.Proven},
		{"proven with a network alone", prove.Proven, prove.Runs{Oracle: []result.Trial{passed}, Offline: []result.Trial{failed}}, mine.NeedsNetwork},
		{"the change passes sometimes", prove.Flaky, prove.Runs{Oracle: []result.Trial{passed, failed}}, mine.Flaky},
		{"the change passed once and never again", prove.Broken, prove.Runs{Oracle: []result.Trial{failed}}, mine.Flaky},
		{"nothing passes sometimes", prove.Trivial, prove.Runs{Nop: []result.Trial{passed, failed}}, mine.Flaky},
		{"the tests take too long", prove.Broken, prove.Runs{Oracle: []result.Trial{ended(result.VerifierTimeout)}}, mine.TooSlow},
		{"the image cannot be built", prove.Broken, prove.Runs{Oracle: []result.Trial{ended(result.EnvironmentBuildFailed)}}, mine.BuildFailed},
		{"the change cannot be made", prove.Broken, prove.Runs{Oracle: []result.Trial{ended(result.AgentExecutionFailed)}}, mine.FailsAfter},
		{"the machine failed", prove.Unknown, prove.Runs{}, mine.NotKnown},
	} {
		if got, detail := judge(prove.TaskReport{Verdict: tc.verdict, Runs: tc.runs}); got != tc.want || detail == "it said\x1b[31m no" {
			t.Errorf("%s: %s (%q), want %s", tc.name, got, detail, tc.want)
		}
	}
	flawed := prove.TaskReport{Verdict: prove.Flawed, Findings: []prove.Finding{{Rule: "secret", Severity: prove.Error, Message: "a token"}}}
	if got, detail := judge(flawed); got != mine.Flawed || detail != "secret: a token" {
		t.Errorf("flawed: %s (%q)", got, detail)
	}
	ofRepository := prove.TaskReport{Verdict: prove.Flawed, Findings: []prove.Finding{{Rule: "secret", Severity: prove.Error, File: "environment/repo/a_test.go"}}}
	if got, detail := judge(ofRepository); got != mine.Proven || detail != "looks like a secret: environment/repo/a_test.go" {
		t.Errorf("a secret that the repository has: %s (%q)", got, detail)
	}
	ofRepository.Findings = append(ofRepository.Findings, prove.Finding{Rule: "secret", Severity: prove.Error, File: "instruction.md"})
	if got, _ := judge(ofRepository); got != mine.Flawed {
		t.Errorf("a secret in the instruction, too: %s", got)
	}
	ofRepository.Findings = ofRepository.Findings[:1]
	ofRepository.Runs.Offline = []result.Trial{failed}
	if got, _ := judge(ofRepository); got != mine.NeedsNetwork {
		t.Errorf("a secret that the repository has, and no pass without a network: %s", got)
	}
}
