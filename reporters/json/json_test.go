package json_test

import (
	"bytes"
	stdjson "encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/test/reporttest"
	"github.com/org/rollout-action/internal/test/untrustedtest"
	"github.com/org/rollout-action/reporters/json"
)

func TestGolden(t *testing.T) {
	for name, in := range reporttest.Inputs() {
		t.Run(name, func(t *testing.T) {
			reporttest.Golden(t, name+".json", reporttest.Write(t, json.Reporter{}, in))
		})
	}
}

func TestAttacksStayText(t *testing.T) {
	for _, a := range untrustedtest.Corpus {
		text := reporttest.Write(t, json.Reporter{}, reporttest.Hostile(a))
		for line := range bytes.Lines(text) {
			if l := string(line); strings.HasPrefix(strings.TrimSpace(l), "::") || strings.Contains(l, "##[") ||
				strings.ContainsFunc(strings.TrimSuffix(l, "\n"), untrusted.Invisible) {
				t.Errorf("%s: not fit for a log: %.200q", a.Name, l)
			}
		}
		var r json.Report
		dec := stdjson.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&r); err != nil {
			t.Fatalf("%s: %v", a.Name, err)
		}
		if want := strings.ToValidUTF8(a.Text, "\ufffd"); strings.Count(a.Text, "\xff") == 0 && !strings.Contains(a.Text, "\xc3(") && r.Verdict.Reason != want {
			t.Errorf("%s: the reason is %.200q, want %.200q", a.Name, r.Verdict.Reason, want)
		}
	}
}

func TestRewardsWithNames(t *testing.T) {
	in := reporttest.Make("parts", []reporttest.Spec{
		{Agent: "a", Dataset: "d", Task: "t", Reward: new(0.5)}, {Agent: "a", Dataset: "d", Task: "t", Attempt: 2, Reward: new(1.0)},
	})
	reporttest.ChangeTrials(&in, func(trials []result.Trial) {
		trials[0].Rewards = map[string]float64{"style": 0.25, "huge": math.Inf(1)}
	})
	text := reporttest.Write(t, json.Reporter{}, in)
	var r json.Report
	if err := stdjson.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if got := r.Tasks[0].Attempts[0].Rewards; len(got) != 2 || got["style"] != 0.25 || got["huge"] != math.MaxFloat64 {
		t.Errorf("the rewards are %v", got)
	}
	if n := bytes.Count(text, []byte(`"rewards"`)); n != 1 {
		t.Errorf("there are rewards %d times, want once", n)
	}
}

func TestNumbersThatJSONCannotHold(t *testing.T) {
	in := reporttest.Make("huge", []reporttest.Spec{
		{Agent: "a", Dataset: "d", Task: "t", Reward: new(math.MaxFloat64), Cost: math.MaxFloat64},
		{Agent: "a", Dataset: "d", Task: "t", Attempt: 2, Reward: new(math.MaxFloat64), Cost: math.MaxFloat64},
	})
	in = reporttest.Against(in, in)
	in.Verdict.Checks = []gate.Check{{Value: math.Inf(1), Test: &gate.Test{P: 0.25, High: math.NaN()}}}
	var r json.Report
	if err := stdjson.Unmarshal(reporttest.Write(t, json.Reporter{}, in), &r); err != nil {
		t.Fatal(err)
	}
	if c := r.Verdict.Checks[0]; c.Value != math.MaxFloat64 || c.Test.P != 0.25 || c.Test.High != 0 {
		t.Errorf("check %+v, test %+v", c, *c.Test)
	}
	if r.Summary.TotalCost != result.Dollars(math.MaxFloat64) {
		t.Errorf("total cost %v", r.Summary.TotalCost)
	}
}
