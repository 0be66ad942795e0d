package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/agent/presets"
	"github.com/org/rollout-action/internal/core/config"
)

// An agent that reaches its model through its vendor's service can have neither a model of the job
// nor a budget, and the error explains it.
func TestPresetsThatCannotGoBehindTheGateway(t *testing.T) {
	tried := 0
	for _, name := range presets.Names() {
		preset, _ := presets.Get(name)
		if preset.NoGateway == "" {
			continue
		}
		tried++
		noModel := fmt.Sprintf("the preset %s cannot use a model of the job: %s (remove model: and budget:, and give it its key in env)", name, preset.NoGateway)
		noBudget := fmt.Sprintf("the preset %s cannot have a budget, which a model of the job keeps: %s (remove it)", name, preset.NoGateway)
		for keys, want := range map[string]string{
			"model: m":                                "5:12: " + noModel,
			"model: n":                                "5:12: " + noModel, // a scripted one
			"model: unknown":                          "5:12: " + noModel,
			"budget: {max_turns: 3}":                  "5:13: " + noBudget,
			"budget: {max_input_tokens: 3}":           "5:13: " + noBudget,
			"budget: {max_output_tokens: 3}":          "5:13: " + noBudget,
			"budget: {max_total_tokens: 3}":           "5:13: " + noBudget,
			"budget: {max_cost_usd: 3}":               "5:13: " + noBudget,
			"model: m\n    budget: {max_turns: 3}":    "5:12: " + noModel,
			"model: m\n    budget: {max_cost_usd: 3}": "5:12: " + noModel,
		} {
			t.Run(name+" "+keys, func(t *testing.T) {
				dir := directory(t, map[string]string{"answers.yaml": "answers: [{text: one}]\n"})
				opts := options(dir)
				opts.Stdin = strings.NewReader(fmt.Sprintf(`models: {m: {api: anthropic}, n: {api: scripted, script: answers.yaml}}
agents:
  - name: a
    preset: %s
    %s
    env: {%s: x}
datasets: [{path: dataset}]
`, name, keys, preset.Keys[0]))
				_, err := config.Load("-", opts)
				wantProblems(t, err, dir, "<stdin>:"+want)
			})
		}
	}
	if tried < 6 {
		t.Errorf("%d presets cannot go behind the gateway", tried)
	}
}
