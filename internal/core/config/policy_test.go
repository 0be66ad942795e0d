package config_test

import (
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/gate"
)

func TestPolicyOfAJobThatHasRun(t *testing.T) {
	flag := func(key, value string) config.Override {
		return config.Override{Path: "gate." + key, Value: value, Origin: "--" + key}
	}
	t.Run("without a gate it is the default", func(t *testing.T) {
		got, err := config.Policy("config.json", nil, nil)
		if err != nil || got.Confidence != 0.95 || got.Noise != gate.NoiseTest || got.OnInconclusive != gate.Pass || got.MinPassRate != nil {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("a flag wins over the file, and other keys are ignored", func(t *testing.T) {
		data := `{"datasets": [{"path": "gone"}], "gate": {"min_pass_rate": 0.5, "confidence": 0.9, "quarantine": [{"task": "a", "reason": "r", "until": "2026-01-01"}]}}`
		got, err := config.Policy("config.json", []byte(data), []config.Override{flag("min_pass_rate", "0.75")})
		if err != nil || got.MinPassRate == nil || *got.MinPassRate != 0.75 || got.Confidence != 0.9 || len(got.Quarantine) != 1 {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	for _, tc := range []struct{ name, data, want string }{
		{"a rate above 1", `{"gate": {"min_pass_rate": 7}}`, "gate.min_pass_rate"},
		{"a percentage that is none", `{"gate": {"max_cost_increase": "much%"}}`, "a number or a percentage such as 20%"},
		{"a negative percentage", `{"gate": {"max_cost_increase": "-5%"}}`, "gate.max_cost_increase must be at least 0, not -5%"},
		{"an unknown key", `{"gate": {"min_passrate": 0.7}}`, "min_pass_rate"},
		{"an invalid date", `{"gate": {"quarantine": [{"task": "a", "reason": "r", "until": "soon"}]}}`, "until"},
		{"a last day without advice", "{\n  \"gate\": {\n    \"until\": \"2027-01-31\"\n  }\n}", "config.json:3:14: gate.until is the last day of mode: advise, and the gate's mode is enforce (set gate.mode: advise, or remove gate.until)"},
		{"a last day of another mode", `{"gate": {"mode": "enforce", "until": "2027-01-31"}}`, "the gate's mode is enforce"},
		{"a last day that is none", `{"gate": {"mode": "advise", "until": "soon"}}`, `gate.until: "soon" is not a date (write the last day like 2026-12-31)`},
		{"an unknown mode", `{"gate": {"mode": "advice", "until": "2027-01-31"}}`, `gate.mode must be one of enforce, advise, not "advice" (did you mean "advise"?)`},
		{"a place in the file", "{\n  \"name\": \"pr\",\n  \"gate\": {\n    \"min_pass_rate\": 7\n  }\n}", "config.json:4:22: "},
		{"an incomplete file", `{`, "config.json:1:1: not valid JSON"},
		{"a file of blanks", "\n", "config.json: is not the config.json of a job"},
		{"a list", `[]`, "config.json: is not the config.json of a job"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := config.Policy("config.json", []byte(tc.data), nil); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q in it", err, tc.want)
			}
		})
	}
	t.Run("a share may be a percentage", func(t *testing.T) {
		for _, text := range []string{"20%", "0.2", "20 %"} {
			got, err := config.Policy("config.json", []byte(`{"gate": {"max_cost_increase": 0.5}}`), []config.Override{flag("max_cost_increase", text)})
			if err != nil || got.MaxCostIncrease == nil || *got.MaxCostIncrease != 0.2 {
				t.Errorf("%s: got %+v, %v", text, got, err)
			}
		}
	})
	t.Run("flags set and end the advice", func(t *testing.T) {
		got, err := config.Policy("config.json", nil, []config.Override{flag("mode", "advise"), flag("until", "2027-01-31")})
		if err != nil || got.Mode != gate.ModeAdvise || got.Until != "2027-01-31" {
			t.Errorf("got %+v, %v", got, err)
		}
		got, err = config.Policy("config.json", []byte(`{"gate": {"mode": "advise", "until": "2027-01-31"}}`), []config.Override{flag("mode", "enforce"), flag("until", "null")})
		if err != nil || got.Mode != gate.ModeEnforce || got.Until != "" {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("an invalid flag is reported", func(t *testing.T) {
		_, err := config.Policy("config.json", nil, []config.Override{flag("confidence", "high")})
		if err == nil || !strings.Contains(err.Error(), "--confidence") {
			t.Errorf("got %v", err)
		}
	})
}

func TestGateKeysAreFlags(t *testing.T) {
	var flags []string
	for _, k := range config.GateKeys() {
		if k.Doc == "" {
			t.Errorf("%s has no text", k.Key)
		}
		flags = append(flags, k.Flag())
	}
	want := "min-pass-rate min-pass-rate-all min-mean-reward max-failed-trials max-pass-rate-drop max-mean-reward-drop max-broken-tasks max-cost-usd max-cost-increase max-judge-cost-usd max-duration-sec gate-mode gate-until confidence noise on-inconclusive on-no-baseline stop-early confirm"
	if got := strings.Join(flags, " "); got != want {
		t.Errorf("got %s", got)
	}
}
