package examples

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/test/gatetest"
	"github.com/org/rollout-action/internal/test/testenv"
)

// policy is a gate that Rollout writes into a user's repository, or shows for copying.
type policy struct {
	gate.Policy
	where []string
}

// policies returns all of them, read from the files themselves, reduced to their comparison with a
// baseline. Limits on the job alone (min_pass_rate, max_cost_usd, …) are removed, because no chance
// is involved, and groups are about all agents.
func policies(t *testing.T) []policy {
	t.Helper()
	var found []policy
	add := func(where string, gateKeys map[string]any, flags map[string]string) {
		delete(gateKeys, "quarantine") // it concerns no task of a suite
		delete(gateKeys, "mode")       // nor do the days on which the gate only advises
		delete(gateKeys, "until")
		data, err := json.Marshal(map[string]any{"gate": gateKeys})
		if err != nil {
			t.Fatal(err)
		}
		var overrides []config.Override
		for _, k := range config.GateKeys() {
			if v := flags[k.Flag()]; v != "" {
				overrides = append(overrides, config.Override{Path: "gate." + k.Key, Value: v, Origin: where})
			}
		}
		p, err := config.Policy(where, data, overrides)
		if err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		compares := compared(&p.Thresholds)
		for i := range p.Groups {
			p.Groups[i].Agent, p.Groups[i].Dataset = "a*", ""
			compares = compared(&p.Groups[i].Thresholds) || compares
		}
		p.Groups = slices.DeleteFunc(p.Groups, func(g gate.Group) bool { return g.None() })
		if !compares {
			return
		}
		text := mustJSON(t, p)
		for i := range found {
			if mustJSON(t, found[i].Policy) == text {
				found[i].where = append(found[i].where, where)
				return
			}
		}
		found = append(found, policy{p, []string{where}})
	}
	fence := regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```")
	command := regexp.MustCompile(`--(m(?:ax|in)-[a-z-]+|confidence|noise|on-inconclusive|on-no-baseline)[ =](\S+)`)
	for _, root := range []string{"../README.md", "../docs", "../.github", "../internal/app/scaffold", "."} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if os.IsNotExist(err) || err == nil && d.IsDir() {
				return nil
			}
			if err != nil {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			switch filepath.Ext(path) {
			case ".yml", ".yaml":
				walk(string(text), func(gateKeys map[string]any, flags map[string]string) { add(path, gateKeys, flags) })
			case ".md":
				for _, block := range fence.FindAllStringSubmatch(string(text), -1) {
					if block[1] == "yaml" {
						walk(block[2], func(gateKeys map[string]any, flags map[string]string) { add(path, gateKeys, flags) })
					}
					for line := range strings.Lines(block[2]) {
						flags := map[string]string{}
						for _, m := range command.FindAllStringSubmatch(line, -1) {
							flags[m[1]] = m[2]
						}
						if strings.HasPrefix(line, "rollout ") && len(flags) > 0 {
							add(path, nil, flags)
						}
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// walk finds the keys of gate, and the gate's inputs of the Action, anywhere in YAML. Other text
// has none.
func walk(text string, found func(gateKeys map[string]any, flags map[string]string)) {
	var root any
	if yaml.Unmarshal([]byte(text), &root) != nil {
		return
	}
	var in func(any)
	in = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				in(item)
			}
		case map[string]any:
			if keys, ok := v["gate"].(map[string]any); ok {
				found(keys, nil)
			}
			flags := map[string]string{}
			for _, k := range config.GateKeys() {
				if text := fmt.Sprint(v[k.Flag()]); v[k.Flag()] != nil && !strings.Contains(text, "${{") && !strings.HasPrefix(text, "map[") {
					flags[k.Flag()] = text
				}
			}
			if len(flags) > 0 {
				found(nil, flags)
			}
			for _, item := range v {
				in(item)
			}
		}
	}
	in(root)
}

// compared keeps only the limits that compare with a baseline, and reports whether there are any.
func compared(t *gate.Thresholds) bool {
	*t = gate.Thresholds{MaxPassRateDrop: t.MaxPassRateDrop, MaxMeanRewardDrop: t.MaxMeanRewardDrop, MaxBrokenTasks: t.MaxBrokenTasks}
	return !t.None()
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// red reports whether a policy fails a pull request, with confirmation of tasks that look broken.
func red(p gate.Policy, w gatetest.Pair, rng *rand.Rand) bool {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w.Confirm(rng, p.Confirmable(w.Base, w.Head, now, false))
	diff := result.Compare(w.Base, w.Head)
	return !p.Check(w.Head, &diff, now).Passed(p)
}

// cells returns suites without changes: the difficulties of their tasks are drawn from U-shaped,
// flat and skewed distributions, and attempts of a run are independent or often copies of each
// other.
func cells(tasks, attempts []int, copied []float64) []gatetest.Suite {
	var out []gatetest.Suite
	for _, n := range tasks {
		for _, k := range attempts {
			for _, ab := range [][2]float64{{0.3, 0.3}, {1, 1}, {8, 1}, {1, 8}} {
				for _, c := range copied {
					out = append(out, gatetest.Suite{Tasks: n, Attempts: k, A: ab[0], B: ab[1], Copied: c, Crashed: 0.2})
				}
			}
		}
	}
	return out
}

const sweepVariable = "ROLLOUT_TEST_SWEEP"

// TestPoliciesRarelyFailUnchangedAgents: of pull requests that change nothing, every policy that we
// write into a user's repository fails at most one in twenty. The test checks the share in each
// cell, with the margin of a simulation, and the share over all of them.
func TestPoliciesRarelyFailUnchangedAgents(t *testing.T) {
	if os.Getenv(sweepVariable) == "" {
		testenv.Long(t, "suites are simulated many times")
	}
	all := policies(t)
	if len(all) < 4 || !slices.ContainsFunc(all, func(p policy) bool { return p.Confirm.Attempts > 0 }) {
		t.Fatalf("only %d policies were found: %+v", len(all), all)
	}
	suites, runs := cells([]int{10, 40}, []int{1, 3}, []float64{0, 0.7}), 40
	if os.Getenv(sweepVariable) != "" {
		suites, runs = cells([]int{10, 30, 100, 300}, []int{1, 3, 5}, []float64{0, 0.7}), 100
	} else {
		t.Logf("left out: suites of 30, 100 and 300 tasks, 5 attempts, and 100 runs of each; %s=1 has them", sweepVariable)
	}
	type count struct{ runs, red, old int }
	counts := make([][]count, len(all)) // by policy and suite
	for i := range all {
		counts[i] = make([]count, len(suites))
	}
	t.Run("draw", func(t *testing.T) {
		for j, s := range suites {
			t.Run(s.String(), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(uint64(j), 11))
				for range runs {
					w := s.Draw(rng)
					for i, p := range all {
						c := &counts[i][j]
						c.runs++
						if red(p.Policy, *w, rng) {
							c.red++
						}
						p.Noise, p.Confirm.Attempts = gate.NoiseIgnore, 0
						if red(p.Policy, *w, rng) {
							c.old++
						}
					}
				}
			})
		}
	})
	for i, p := range all {
		var sum count
		worst, at := 0.0, ""
		for j, c := range counts[i] {
			sum.runs, sum.red, sum.old = sum.runs+c.runs, sum.red+c.red, sum.old+c.old
			share := float64(c.red) / float64(c.runs)
			if share > worst {
				worst, at = share, suites[j].String()
			}
			if share > limit(c.runs, 4) {
				t.Errorf("%s: red in %.1f %% of runs of an unchanged suite (%s)\n%s", p.where, share*100, suites[j], mustJSON(t, p.Policy))
			}
		}
		share, old := float64(sum.red)/float64(sum.runs), float64(sum.old)/float64(sum.runs)
		t.Logf("%s\n%s\nred in %.2f %% of %d runs, at most %.1f %% (%s); without a test in %.1f %%", p.where, mustJSON(t, p.Policy), share*100, sum.runs, worst*100, at, old*100)
		if share > limit(sum.runs, 3) {
			t.Errorf("%s: red in %.1f %% of runs of unchanged suites\n%s", p.where, share*100, mustJSON(t, p.Policy))
		}
		if old < 2*limit(sum.runs, 3) {
			t.Errorf("%s: a gate without a test is red in %.1f %% of runs only: these suites show nothing", p.where, old*100)
		}
	}
}

// limit returns the highest share of reds that is compatible with 5 % in a simulation: 5 % plus the
// given number of standard errors.
func limit(runs int, errors float64) float64 {
	return 0.05 + errors*math.Sqrt(0.05*0.95/float64(runs))
}

// TestPoliciesDetectBreakage checks the documented rates at which broken tasks are found.
func TestPoliciesDetectBreakage(t *testing.T) {
	p := gate.Policy{Thresholds: gate.Thresholds{MaxBrokenTasks: new(0)}, Confirm: gate.Confirm{Attempts: 4}}
	runs := 60
	if os.Getenv(sweepVariable) != "" {
		runs = 500
	} else {
		t.Logf("left out: %s=1 prints the table of docs/internals/statistics.md", sweepVariable)
	}
	for _, c := range []struct {
		suite gatetest.Suite
		least float64
	}{
		{gatetest.Suite{Tasks: 30, Attempts: 3, A: 0.3, B: 0.3, Broken: 1}, 0},
		{gatetest.Suite{Tasks: 30, Attempts: 3, A: 0.3, B: 0.3, Broken: 4}, 0},
		{gatetest.Suite{Tasks: 30, Attempts: 3, A: 0.3, B: 0.3, Broken: 6}, 0.6},
		{gatetest.Suite{Tasks: 30, Attempts: 3, A: 8, B: 1, Broken: 4}, 0},
		{gatetest.Suite{Tasks: 30, Attempts: 3, A: 8, B: 1, Broken: 8}, 0.6},
		{gatetest.Suite{Tasks: 30, Attempts: 1, A: 8, B: 1, Broken: 6}, 0},
		{gatetest.Suite{Tasks: 100, Attempts: 3, A: 0.3, B: 0.3, Broken: 6}, 0},
		{gatetest.Suite{Tasks: 100, Attempts: 3, A: 0.3, B: 0.3, Broken: 10}, 0.8},
		{gatetest.Suite{Tasks: 20, Attempts: 3, A: 1e9, B: 1, Broken: 4}, 0.99},
	} {
		t.Run(c.suite.String(), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(3, 7))
			found := 0
			for range runs {
				if red(p, *c.suite.Draw(rng), rng) {
					found++
				}
			}
			share := float64(found) / float64(runs)
			t.Logf("%s: found in %.0f %% of runs", c.suite, share*100)
			if share < c.least {
				t.Errorf("found in %.0f %% of runs, want %.0f %%", share*100, c.least*100)
			}
		})
	}
}
