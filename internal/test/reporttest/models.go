package reporttest

import (
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
)

// Models returns a job whose agents have models: one became cheaper although it takes more turns,
// the price of one is unknown, and one has another model than in the baseline, with a call of
// unknown price.
func Models() report.Input {
	usage := func(model string, turns, input, output int64, seconds float64) *result.Usage {
		u := &result.Usage{Turns: turns, Calls: turns, InputTokens: new(input), ModelSec: seconds, Requested: model}
		if output > 0 {
			u.OutputTokens = new(output)
		}
		return u
	}
	job := func(name string, of map[string][2]*result.Usage, costs map[string]float64) report.Input {
		var specs []Spec
		for _, agent := range []string{"careful", "priceless", "upgraded"} {
			for i, task := range []string{"hello", "parse"} {
				specs = append(specs, Spec{Agent: agent, Dataset: "core", Task: task, Reward: new(1.0), Seconds: 30, Cost: costs[agent], Digest: "sha256:7", Usage: of[agent][i]})
			}
		}
		return Make(name, specs)
	}
	two := func(u *result.Usage) [2]*result.Usage { again := *u; return [2]*result.Usage{u, &again} }
	base := job("main", map[string][2]*result.Usage{
		"careful": two(usage("small", 5, 8000, 1000, 16)), "priceless": two(usage("local", 5, 4000, 0, 10)), "upgraded": two(usage("small", 5, 8000, 1000, 10)),
	}, map[string]float64{"careful": 0.455, "priceless": 0.1, "upgraded": 0.25})
	priceless, upgraded := two(usage("local", 5, 4000, 0, 10)), two(usage("large", 5, 8000, 1000, 10))
	for _, u := range priceless {
		u.Unpriced = 5
	}
	upgraded[1].Unpriced = 1
	head := job("pr-14", map[string][2]*result.Usage{
		"careful": two(usage("small", 8, 10000, 1000, 20)), "priceless": priceless, "upgraded": upgraded,
	}, map[string]float64{"careful": 0.4, "upgraded": 0.5})
	return Against(head, base)
}
