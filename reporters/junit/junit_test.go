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
	in.Trials[0].TestsReward = new(1.0)
	in.Trials[0].Agents = []result.AgentRun{{Name: "quality", Role: result.RoleJudge, Score: new(0.25), Reason: "Too long.\n]]> <b>"}}
	text := string(reporttest.Write(t, junit.Reporter{}, in))
	if !strings.Contains(text, "judge quality, score 0.25: Too long.") || strings.Contains(text, "\n]]> <b>") {
		t.Errorf("%s", text)
	}
}
