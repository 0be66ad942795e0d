package result

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestMetadataHasNullForUnknownValues(t *testing.T) {
	for _, test := range []struct {
		summary Summary
		want    string
	}{
		{Summary{TotalTrials: 2, FailedTrials: 2}, `"avg_reward":null,"pass_rate":null,"cost":null`},
		{Summary{TotalTrials: 2, CompletedTrials: 2}, `"avg_reward":0,"pass_rate":0,"cost":null`},
		{Summary{TotalTrials: 2, CompletedTrials: 2, MeanReward: 0.5, PassRate: 0.5, TotalCost: Dollars(0.25)}, `"avg_reward":0.5,"pass_rate":0.5,"cost":0.25`},
	} {
		text, err := json.Marshal(progressOf(test.summary))
		if err != nil || !strings.Contains(string(text), test.want) {
			t.Errorf("%s, want %s (%v)", text, test.want, err)
		}
	}
}
