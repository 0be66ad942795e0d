package junit_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/reporttest"
	"github.com/org/rollout-action/reporters/junit"
)

func render(t *testing.T, r junit.Reporter, in report.Input) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b, in); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestGolden(t *testing.T) {
	for name, in := range reporttest.Inputs() {
		t.Run(name, func(t *testing.T) { reporttest.Golden(t, name+".xml", render(t, junit.Reporter{}, in)) })
	}
	t.Run("with files", func(t *testing.T) {
		reporttest.Golden(t, "files.xml", render(t, junit.Reporter{CaseFiles: true}, reporttest.NoBaseline()))
	})
}

// What judges said explains a reward that is below 1 because of them.
func TestJudgesExplainAReward(t *testing.T) {
	in := reporttest.Make("judged", []reporttest.Spec{{Agent: "mine", Dataset: "evals", Task: "letter", Reward: new(0.625), Seconds: 1}})
	reporttest.ChangeTrials(&in, func(trials []result.Trial) {
		trials[0].TestsReward = new(1.0)
		trials[0].Agents = []result.AgentRun{{Name: "quality", Role: result.RoleJudge, Score: new(0.25), Reason: "Too long.\n]]> <b>"}}
	})
	text := string(reporttest.Write(t, junit.Reporter{}, in))
	if !strings.Contains(text, "judge quality, score 0.25: Too long.") || strings.Contains(text, "\n]]> <b>") {
		t.Errorf("%s", text)
	}
}

// A document that does not fit loses a part, and the rest is as it would be without a limit.
func TestALimitLeavesOutAsLittleAsPossible(t *testing.T) {
	for name, in := range reporttest.Inputs() {
		t.Run(name, func(t *testing.T) {
			whole := render(t, junit.Reporter{}, in)
			if got := render(t, junit.Reporter{Limit: len(whole)}, in); !bytes.Equal(got, whole) {
				t.Error("a document that just fits is another one")
			}
			smallest := render(t, junit.Reporter{Limit: 1}, in)
			for limit := len(whole) - 1; limit > 0; {
				got := render(t, junit.Reporter{Limit: limit}, in)
				if len(got) > limit && !bytes.Equal(got, smallest) {
					t.Fatalf("limit %d: %d bytes, and there is a smaller one", limit, len(got))
				}
				limit = min(limit, len(got)) - max(len(whole)/50, 1)
			}
		})
	}
}
