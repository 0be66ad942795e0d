package run

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/cli/tables"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// dryRun prints what a run would do.
func dryRun(ctx context.Context, v *command.Invocation, req stages.RunRequest, asJSON bool) error {
	d, err := app.RunDry(ctx, v.Host(), req)
	if err != nil {
		return err
	}
	v.PrintWarnings(d.Warnings)
	if asJSON {
		return v.PrintJSON(dryRunJSON(*d))
	}
	var b strings.Builder
	writeDryRun(&b, *d)
	_, err = io.WriteString(v.Stdout, b.String())
	return err
}

func writeDryRun(b *strings.Builder, d app.DryRun) {
	if len(d.Trials) > 0 {
		t := tables.New(b)
		t.Row("ATTEMPTS", "EACH", "AGENT", "DATASET", "TASK")
		for _, r := range d.Trials {
			each := "–"
			if r.Each != nil {
				each = app.Brief(*r.Each)
			}
			t.Row(strconv.Itoa(r.Attempts), each, tables.Cell(r.Agent), tables.Cell(r.Dataset), tables.Cell(r.Task))
		}
		_ = t.Flush() // to a buffer
		b.WriteString("\n")
	}
	fmt.Fprintf(b, "%s%s would run, %d at a time, on %s\n", d.Estimate.Most(), plural.Count(d.Estimate.Trials, "trial"), d.Concurrent, d.Provider)
	if d.Shard != nil {
		fmt.Fprintf(b, "Shard: %s of a job of %s\n", d.Shard, plural.Count(d.Total, "trial"))
	}
	where := "new"
	if d.Resumed {
		where = "exists; " + plural.Count(d.Kept, "result") + " in it would stay"
	}
	fmt.Fprintf(b, "Directory: %s (%s)\n", tables.Cell(d.Dir), where)
	writeReused(b, d)
	writeImages(b, d)
	if d.Estimate.Trials > 0 {
		fmt.Fprintf(b, "Time: %s\nCost: %s\n", timeText(d.Estimate), estimatedCost(d.Estimate))
		for _, line := range budgetText(d) {
			fmt.Fprintf(b, "Budget: %s\n", line)
		}
	}
	b.WriteString("Nothing was started.\n")
}

func writeReused(b *strings.Builder, d app.DryRun) {
	if d.Reused == 0 && d.NotReused == "" {
		return
	}
	fmt.Fprintf(b, "Reused: %s", plural.Count(d.Reused, "trial"))
	if d.NotReused != "" {
		fmt.Fprintf(b, " (the others: %s)", untrusted.Line(d.NotReused))
	}
	b.WriteString("\n")
	if d.AskedLater > 0 {
		fmt.Fprintf(b, "  perhaps %d more: the run asks the provider whether their images are still the same\n", d.AskedLater)
	}
}

func writeImages(b *strings.Builder, d app.DryRun) {
	var parts []string
	if d.Builds > 0 {
		parts = append(parts, fmt.Sprintf("%d to build", d.Builds))
	}
	if d.Pulls > 0 {
		parts = append(parts, fmt.Sprintf("%d to pull", d.Pulls))
	}
	if len(parts) > 0 {
		fmt.Fprintf(b, "Images: %s, unless the provider has them\n", strings.Join(parts, ", "))
	}
	if d.Layers > 0 {
		fmt.Fprintf(b, "Agent layers: install would run %s for %s, once for each image, unless the provider has the layer or can keep none\n",
			plural.Count(d.Layers, "time"), tables.Cell(strings.Join(d.LayerAgents, ", ")))
	}
	if d.Broken > 0 {
		fmt.Fprintf(b, "Broken: %s cannot run (rollout validate says why)\n", plural.Count(d.Broken, "task"))
	}
}

// timeText says how long the trials may take, and how much of that is known.
func timeText(e app.Estimate) string {
	if e.Wall == nil {
		return "not known: " + noEarlier(e, "of the same agent and task")
	}
	text := fmt.Sprintf("%sabout %s, by %s in %s", e.Most(), app.Brief(*e.Wall), plural.Count(e.Earlier, "earlier trial"), plural.Count(e.Jobs, "job"))
	if n := e.Trials - e.Timed; n > 0 {
		text += fmt.Sprintf("; nothing is known about %s of %d, counted as the median of the others", plural.Count(n, "trial"), e.Trials)
	}
	return text + "; without images and installs that earlier trials did not need"
}

// estimatedCost says what the trials may cost, and how much of that is known.
func estimatedCost(e app.Estimate) string {
	if e.Cost == nil {
		return "not known: " + noEarlier(e, "of these agents reported one")
	}
	return e.CostText()
}

func noEarlier(e app.Estimate, which string) string {
	if e.Jobs == 0 {
		return "there is no earlier job (--timings names one)"
	}
	return fmt.Sprintf("no trial in %s %s", plural.Count(e.Jobs, "earlier job"), which)
}

// budgetText says when the budget would stop the job, a sentence for each line.
func budgetText(d app.DryRun) []string {
	b, f := d.Budget, d.Budget.Forecast
	var out []string
	limits := map[result.StopReason]string{}
	if b.MaxCostUSD != nil {
		limits[result.StopBudgetCost] = "max_cost_usd (" + report.Dollars(*b.MaxCostUSD) + of(d.Shard, ", this shard's share") + ")"
	}
	if b.MaxDuration != nil {
		limits[result.StopBudgetDuration] = "max_duration (" + app.Brief(*b.MaxDuration) + ")"
	}
	switch limit := limits[f.Stops]; {
	case f.Stops != "" && f.Run+f.Cancelled == 0:
		out = append(out, limit+" is used up already: no trial would start")
	case f.Stops != "":
		after := ""
		if d.Estimate.Wall != nil {
			after = " and " + app.Brief(f.After)
		}
		text := fmt.Sprintf("%s would stop the job after about %s%s: ", limit, plural.Count(f.Run, "trial"), after)
		if f.Cancelled > 0 {
			text += fmt.Sprintf("%d would be cancelled, ", f.Cancelled)
		}
		out = append(out, text+fmt.Sprintf("%d would not start", f.Left))
	case b.CostKnown || b.TimeKnown:
		var enough []string
		if b.CostKnown {
			enough = append(enough, limits[result.StopBudgetCost])
		}
		if b.TimeKnown {
			enough = append(enough, limits[result.StopBudgetDuration])
		}
		out = append(out, strings.Join(enough, " and ")+" would not stop the job")
	}
	if b.MaxCostUSD != nil && !b.CostKnown {
		out = append(out, "whether "+limits[result.StopBudgetCost]+" would stop the job is not known, because the cost is not")
	}
	if b.MaxDuration != nil && !b.TimeKnown {
		out = append(out, "whether "+limits[result.StopBudgetDuration]+" would stop the job is not known, because the time is not")
	}
	return out
}

// of returns the text if there is a shard.
func of(shard *result.Shard, text string) string {
	if shard == nil {
		return ""
	}
	return text
}

// dryRunOutput is the JSON form of a dry run. Unknown values are null.
type dryRunOutput struct {
	SchemaVersion int            `json:"schema_version"`
	JobName       string         `json:"job_name"`
	Dir           string         `json:"dir"`
	Provider      string         `json:"provider"`
	Concurrent    int            `json:"n_concurrent_trials"`
	Shard         *result.Shard  `json:"shard"`
	TotalTrials   int            `json:"total_trials"`      // of the whole job
	Trials        int            `json:"trials"`            // that would run
	AtMost        bool           `json:"at_most,omitempty"` // the job may end before all of Trials
	Resumed       bool           `json:"resumed"`
	Kept          int            `json:"kept"`
	Reused        int            `json:"reused"`
	PerhapsReused int            `json:"perhaps_reused"` // the run asks the provider about their images
	Builds        int            `json:"images_to_build"`
	Pulls         int            `json:"images_to_pull"`
	Layers        int            `json:"agent_layers"`
	Broken        int            `json:"broken_tasks"`
	Tasks         []dryRunTask   `json:"tasks"`
	Estimate      dryRunEstimate `json:"estimate"`
	Budget        *dryRunBudget  `json:"budget"` // null without one
}

type dryRunTask struct {
	Agent    string   `json:"agent_name"`
	Dataset  string   `json:"dataset_name"`
	Task     string   `json:"task_name"`
	Attempts int      `json:"attempts"`
	Sec      *float64 `json:"duration_sec"` // of each
}

type dryRunEstimate struct {
	Sec     *float64 `json:"duration_sec"` // from the beginning to the end
	CostUSD *float64 `json:"cost_usd"`
	// The trials that the estimate is made from, and the trials that it is about.
	EarlierJobs   int `json:"earlier_jobs"`
	EarlierTrials int `json:"earlier_trials"`
	Timed         int `json:"trials_timed"`
	Costed        int `json:"trials_costed"`
	CostByAgent   int `json:"trials_costed_by_agent"`
	CostUnknown   int `json:"trials_without_cost"`
}

type dryRunBudget struct {
	MaxCostUSD *float64 `json:"max_cost_usd"`
	MaxSec     *float64 `json:"max_duration_sec"`
	SpentUSD   float64  `json:"spent_usd"`
	ElapsedSec float64  `json:"elapsed_sec"`
	CostKnown  bool     `json:"cost_known"`
	TimeKnown  bool     `json:"duration_known"`
	// Stops is budget_cost or budget_duration, as in result.json; null: the job is expected to run
	// to its end, as far as that is known.
	Stops     *result.StopReason `json:"stops"`
	Run       int                `json:"trials_run"`
	Cancelled int                `json:"trials_cancelled"`
	Left      int                `json:"trials_not_started"`
	AfterSec  *float64           `json:"after_sec"` // null: it does not stop, or the time is not known
}

func dryRunJSON(d app.DryRun) dryRunOutput {
	sec := func(d *time.Duration) *float64 {
		if d == nil {
			return nil
		}
		return new(result.Seconds(*d))
	}
	e := d.Estimate
	out := dryRunOutput{
		SchemaVersion: 1, JobName: d.Name, Dir: d.Dir, Provider: d.Provider, Concurrent: d.Concurrent, Shard: d.Shard, TotalTrials: d.Total, Trials: e.Trials,
		AtMost: e.AtMost, Resumed: d.Resumed, Kept: d.Kept, Reused: d.Reused, PerhapsReused: d.AskedLater, Builds: d.Builds, Pulls: d.Pulls, Layers: d.Layers, Broken: d.Broken,
		Tasks: []dryRunTask{},
		Estimate: dryRunEstimate{
			Sec: sec(e.Wall), CostUSD: e.Cost, EarlierJobs: e.Jobs, EarlierTrials: e.Earlier, Timed: e.Timed, Costed: e.Costed, CostByAgent: e.CostByAgent, CostUnknown: e.CostsUnknown,
		},
	}
	for _, t := range d.Trials {
		out.Tasks = append(out.Tasks, dryRunTask{t.Agent, t.Dataset, t.Task, t.Attempts, sec(t.Each)})
	}
	if b := d.Budget; b.Limited() {
		f := b.Forecast
		out.Budget = &dryRunBudget{
			MaxCostUSD: b.MaxCostUSD, MaxSec: sec(b.MaxDuration), SpentUSD: b.SpentUSD, ElapsedSec: result.Seconds(b.Elapsed), CostKnown: b.CostKnown, TimeKnown: b.TimeKnown,
			Run: f.Run, Cancelled: f.Cancelled, Left: f.Left,
		}
		if f.Stops != "" {
			out.Budget.Stops = &f.Stops
			if e.Wall != nil || f.Run == 0 {
				out.Budget.AfterSec = sec(&f.After)
			}
		}
	}
	return out
}
