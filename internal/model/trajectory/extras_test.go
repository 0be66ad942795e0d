package trajectory

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/lib/bounded"
)

// Agents keep tokens and their probabilities in extra.
func TestHonestListsInExtraAreRead(t *testing.T) {
	for name, number := range map[string]string{"small": "1,", "tokens": "15496,", "probabilities": "-0.25,"} {
		list := "[" + strings.TrimSuffix(strings.Repeat(number, (3<<20)/len(number)), ",") + "]"
		text := `{"schema_version":"ATIF-v1.8","agent":{"name":"a","version":"1","tool_definitions":[{"name":"t","enum":` + list + `}]},
			"steps":[{"step_id":1,"source":"agent","message":"m","metrics":{"extra":{"latency_sec":2.5,"ids":` + list + `}},"extra":{"is_error":true,"none":null}}],"extra":{"ids":` + list + `}}`
		var got Trajectory
		if err := bounded.NewDecoder(strings.NewReader(text)).Decode(&got); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		step := got.Steps[0]
		if step.Metrics.Extra["latency_sec"] != 2.5 || step.Extra["is_error"] != true || step.Extra["none"] != nil || len(got.Agent.Tools) != 1 {
			t.Errorf("%s: got %v, %v", name, step.Metrics.Extra["latency_sec"], step.Extra)
		}
		if raw, _ := got.Extra["ids"].(json.RawMessage); string(raw) != list {
			t.Errorf("%s: the list is not as it was written", name)
		}
	}
}

func TestExtraTakesLittleMemory(t *testing.T) {
	text := `{"extra":{` + strings.TrimSuffix(strings.Repeat(`"":0,`, 1_000_000), ",") + `}}`
	var got Trajectory
	if err := bounded.Unmarshal([]byte(text), &got); err != nil && !errors.Is(err, bounded.ErrAmplified) {
		t.Error(err)
	}
	if len(got.Extra) > 1 {
		t.Errorf("%d members", len(got.Extra))
	}
}
