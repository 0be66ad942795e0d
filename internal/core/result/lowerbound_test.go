package result

import (
	"encoding/json"
	"strings"
	"testing"
)

// A cost that is not known in full stays a lower bound in sums, in files, and after reading them.
func TestCostsThatAreNotKnownInFullAreLowerBounds(t *testing.T) {
	one := 1.0
	exact := Trial{Key: Key{Agent: "a", Dataset: "d", Task: "t", Attempt: 1}, Reward: &one, Usage: &Usage{Turns: 2, Calls: 2, InputTokens: new(int64(5))}, Costs: Costs{Model: Dollars(1)}}
	part := Trial{Key: Key{Agent: "a", Dataset: "d", Task: "t", Attempt: 2}, Reward: &one, Usage: &Usage{Turns: 2, Calls: 3, Estimated: 1, InputTokens: new(int64(5))}, Costs: Costs{Model: Dollars(2).LowerBound(), Environment: Dollars(1)}}
	none := Trial{Key: Key{Agent: "b", Dataset: "d", Task: "t", Attempt: 1}, Reward: &one, Usage: &Usage{Turns: 2, Calls: 3, Unpriced: 3}, Costs: Costs{Model: USD{}.LowerBound(), Judges: Dollars(4)}}
	trials := []Trial{exact, part, none}
	for i := range trials {
		SumCosts(&trials[i])
		data, err := json.Marshal(trials[i])
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(data), `"cost_at_least":true`); got != (i > 0) {
			t.Errorf("the file of trial %d: %s", i, data)
		}
		var read Trial
		if err := ParseTrial(data, trials[i].Key, &read); err != nil || read.Cost != trials[i].Cost || read.Costs != trials[i].Costs {
			t.Errorf("trial %d is read as %+v %+v, %v; want %+v %+v", i, read.Cost, read.Costs, err, trials[i].Cost, trials[i].Costs)
		}
	}
	plan := Plan{JobName: "j", Trials: KeysOf(exact.Key, part.Key, none.Key)}
	job := Summarize(plan, trials)
	if !job.TotalCost.AtLeast() || !job.TotalCostAtLeast || job.TotalCost.Amount() != 8 || !job.Agents["b"].TotalCostAtLeast || !job.Agents["a"].Usage.IsPartial("cost") || !job.Agents["a"].Usage.IsPartial("input_tokens") {
		t.Errorf("%+v", job)
	}
	if len(job.CostsAtLeast) != 1 || job.CostsAtLeast[0] != "model" {
		t.Errorf("parts that are lower bounds: %v", job.CostsAtLeast)
	}
	if got := Summarize(Plan{JobName: "j", Trials: KeysOf(plan.Trials.At(0))}, trials[:1]); got.TotalCostAtLeast || got.Results.At(0).CostAtLeast {
		t.Errorf("exact costs are lower bounds: %+v", got)
	}
	data, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	read, err := ParseJob("result.json", data)
	if err != nil || read.TotalCost != job.TotalCost || !read.Agents["b"].TotalCost.AtLeast() || !read.Results.At(1).Cost.AtLeast() || read.Results.At(0).Cost.AtLeast() || !read.Costs.Model.AtLeast() {
		t.Errorf("%v, read %+v", err, read)
	}
	if _, known := read.Results.At(1).KnownCost().Reported(); known {
		t.Error("a lower bound counts in comparisons")
	}
	if d := Compare(job, job); !d.Overall.Base.CostAtLeast || !d.Overall.Delta().CostAtLeast {
		t.Errorf("%+v", d.Overall)
	}
}
