package job

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
)

func TestMetadataHasNullForUnknownValues(t *testing.T) {
	for _, test := range []struct {
		summary result.Summary
		want    string
	}{
		{result.Summary{TotalTrials: 2, FailedTrials: 2}, `"avg_reward":null,"pass_rate":null,"cost":null`},
		{result.Summary{TotalTrials: 2, CompletedTrials: 2}, `"avg_reward":0,"pass_rate":0,"cost":null`},
		{result.Summary{TotalTrials: 2, CompletedTrials: 2, MeanReward: 0.5, PassRate: 0.5, TotalCost: result.Dollars(0.25)}, `"avg_reward":0.5,"pass_rate":0.5,"cost":0.25`},
	} {
		text, err := json.Marshal(progressOf(test.summary))
		if err != nil || !strings.Contains(string(text), test.want) {
			t.Errorf("%s, want %s (%v)", text, test.want, err)
		}
	}
}

func TestMetadataHasTheNumbersOfEachAttempt(t *testing.T) {
	var plan result.Plan
	for n := range 3 {
		plan.Trials.Append(result.Key{Agent: "a", Dataset: "d", Task: "t", Attempt: n + 1})
	}
	sum := result.Summary{TotalCost: result.Dollars(2), PassK: []result.PassK{{K: 1, Tasks: 1, PassAt: 0.5, PassHat: 0.25}, {K: 3}}}
	m := MetadataOf(plan, result.Job{Summary: sum, Agents: map[string]result.Summary{"a": sum}})
	if m.RolloutsPerExample != 3 || m.Cost != result.Dollars(2) || m.Agents["a"].PassAtK["1"] != 0.5 || m.PassHatK["1"] != 0.25 || len(m.PassAtK) != 1 {
		t.Errorf("metadata: %+v", m)
	}
}
