package app

import (
	"context"
	"maps"
	"math"
	"slices"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/agent"
	"github.com/org/rollout-action/internal/core/gate"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/job"
)

// Power estimates, for numbers of attempts, the smallest change that the gate detects in four of
// five runs of a job.
type Power struct {
	JobName    string  `json:"job_name"`
	Confidence float64 `json:"confidence"`
	Tasks      int     `json:"tasks"`
	Agents     int     `json:"agents"` // those that the gate is about
	// Earlier is the path of the results that the estimate is from; "": tasks are taken to pass
	// with probabilities from 0 to 1, evenly spread, and costs are not known.
	Earlier string `json:"earlier,omitempty"`
	// Unknown is the number of pairs of an agent and a task without an earlier score; they are
	// taken to be as the others of the agent are on average.
	Unknown int `json:"unknown,omitempty"`
	// Uncosted is the number of pairs of which neither the task nor the agent has a known cost;
	// they are left out of the costs.
	Uncosted int        `json:"uncosted,omitempty"`
	Rows     []PowerRow `json:"attempts"`
	// EarlyDiffers: a job that ends early (gate.stop) may have another verdict than one with all
	// attempts.
	EarlyDiffers bool `json:"-"`
	// EarlyUnknown says why the trials of such a job are not known, after "gate.stop: early"; "":
	// they are.
	EarlyUnknown string `json:"-"`
	Pool         int    `json:"-"` // runs of the baseline, of which the estimate counts one
}

// PowerRow is what a suite shows with a number of attempts at each task, in both jobs.
type PowerRow struct {
	gate.Forecast
	Trials  int      `json:"trials"`   // of one job
	CostUSD *float64 `json:"cost_usd"` // of one job; nil: not known
	// EarlyTrials and EarlyCostUSD are those of a job that ends early (gate.stop), if nothing
	// changed; nil: not known.
	EarlyTrials  *int     `json:"early_trials,omitempty"`
	EarlyCostUSD *float64 `json:"early_cost_usd,omitempty"`
}

// PlanPower returns what the gate would show of a job's suite, by the scores and costs of an
// earlier job if one is given. It contacts no provider.
func PlanPower(ctx context.Context, h *host.Host, req stages.JobRequest, earlier string) (Power, error) {
	before, err := stages.ReadEarlier(h.Paths, h.Output, earlier)
	if err != nil {
		return Power{}, err
	}
	req.Unused, req.Unrun = true, true
	p, err := stages.LoadPlan(ctx, h, req)
	if err != nil {
		return Power{}, err
	}
	defer p.Close()
	h.Output.Warnings(p.Warnings)
	pairs := map[result.Key]bool{}
	names := map[string]bool{}
	for _, key := range job.Keys(p.Specs) {
		key.Attempt = 0
		pairs[key], names[key.Agent] = true, true
	}
	evaluated := agent.Evaluated(slices.Sorted(maps.Keys(names)))
	out := Power{JobName: p.Job.Name, Confidence: p.Job.Gate.Confidence, Agents: len(evaluated), Earlier: earlier, EarlyDiffers: p.Job.Gate.LooksAtAllTasks()}
	out.EarlyUnknown, out.Pool = p.Job.Gate.EarlyUnknown(), p.Job.Gate.Baseline.Pool
	levels := out.levels(pairs, evaluated, before)
	out.Tasks = len(levels)
	one := out.cost(pairs, before)
	for _, f := range gate.ForecastsOf(levels, p.Job.Gate) {
		row := PowerRow{Forecast: f, Trials: len(pairs) * f.Attempts}
		if one != nil {
			row.CostUSD = new(*one * float64(f.Attempts))
		}
		if f.EarlyShare != nil {
			row.EarlyTrials = new(int(math.Round(*f.EarlyShare * float64(row.Trials))))
			if one != nil {
				row.EarlyCostUSD = new(*f.EarlyShare * *row.CostUSD)
			}
		}
		out.Rows = append(out.Rows, row)
	}
	return out, nil
}

// levels returns the probabilities of passing the job's tasks.
func (w *Power) levels(pairs map[result.Key]bool, evaluated []string, before result.Job) gate.SuiteLevels {
	known := map[result.Key]float64{}
	for _, name := range evaluated {
		var keys []result.Key
		var attempts []result.Attempts
		for _, t := range result.AttemptsOf(before) {
			if t.Key.Agent == name && pairs[t.Key] && len(t.Scores()) > 0 {
				keys, attempts = append(keys, t.Key), append(attempts, t.Attempts)
			}
		}
		levels := gate.LevelsOf(attempts)
		for i, key := range keys {
			known[key] = levels[i]
		}
		w.fill(known, pairs, name, levels)
	}
	type task struct{ dataset, name string }
	var out gate.SuiteLevels
	at := map[task]int{}
	for _, key := range slices.SortedFunc(maps.Keys(pairs), result.Key.Compare) {
		level, ok := known[key]
		if !ok {
			continue // oracle or nop, in a job with other agents
		}
		t := task{key.Dataset, key.Task}
		i, ok := at[t]
		if !ok {
			i, at[t] = len(out), len(out)
			out = append(out, nil)
		}
		out[i] = append(out[i], level)
	}
	return out
}

// fill sets the levels of an agent's tasks without an earlier score: to the mean of those that have
// one, or to evenly spread probabilities if none has.
func (w *Power) fill(known map[result.Key]float64, pairs map[result.Key]bool, agentName string, levels []float64) {
	var missing []result.Key
	for key := range pairs {
		if _, ok := known[key]; !ok && key.Agent == agentName {
			missing = append(missing, key)
		}
	}
	slices.SortFunc(missing, result.Key.Compare)
	if w.Earlier != "" {
		w.Unknown += len(missing)
	}
	for i, key := range missing {
		if len(levels) > 0 {
			known[key] = result.Mean(levels)
		} else {
			known[key] = (float64(i) + 0.5) / float64(len(missing))
		}
	}
}

// cost returns what one attempt at every task costs, with each task's mean cost or that of its
// agent; nil: not known.
func (w *Power) cost(pairs map[result.Key]bool, before result.Job) *float64 {
	costs := costsOf(before.Results)
	sum, known := 0.0, 0
	for _, key := range slices.SortedFunc(maps.Keys(pairs), result.Key.Compare) { // sums of floats depend on the order
		if key.Agent == agent.Oracle || key.Agent == agent.Nop {
			continue // they ask no model
		}
		mean, ok := costs.tasks[key].mean()
		if !ok {
			mean, ok = costs.agents[key.Agent].mean()
		}
		if ok {
			sum, known = sum+mean, known+1
		} else {
			w.Uncosted++
		}
	}
	if known == 0 {
		w.Uncosted = 0
		return nil
	}
	return &sum
}
