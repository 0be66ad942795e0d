package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/app"
	"github.com/org/rollout-action/internal/plural"
	"github.com/org/rollout-action/internal/report"
)

// dryRun prints what a run would do.
func (v *invocation) dryRun(ctx context.Context, req app.RunRequest) error {
	d, err := app.RunDry(ctx, v.host(), req)
	if err != nil {
		return err
	}
	v.printWarnings(d.Warnings)
	var b strings.Builder
	writeDryRun(&b, *d)
	_, err = io.WriteString(v.Stdout, b.String())
	return err
}

func writeDryRun(b *strings.Builder, d app.DryRun) {
	if len(d.Trials) > 0 {
		t := newTable(b)
		t.row("ATTEMPTS", "EACH", "AGENT", "DATASET", "TASK")
		for _, r := range d.Trials {
			each := "–"
			if r.Each != nil {
				each = app.Brief(*r.Each)
			}
			t.row(strconv.Itoa(r.Attempts), each, cell(r.Agent), cell(r.Dataset), cell(r.Task))
		}
		t.flush()
		b.WriteString("\n")
	}
	fmt.Fprintf(b, "%s would run, %d at a time, on %s\n", plural.Count(d.Estimate.Trials, "trial"), d.Concurrent, d.Provider)
	if d.Shard != nil {
		fmt.Fprintf(b, "Shard: %s of a job of %s\n", d.Shard, plural.Count(d.Total, "trial"))
	}
	where := "new"
	if d.Resumed {
		where = "exists; " + plural.Count(d.Kept, "result") + " in it would stay"
	}
	fmt.Fprintf(b, "Directory: %s (%s)\n", cell(d.Dir), where)
	writeReused(b, d)
	writeImages(b, d)
	if d.Estimate.Trials > 0 {
		fmt.Fprintf(b, "Time: %s\nCost: %s\n", timeText(d.Estimate), estimatedCost(d.Estimate))
	}
	b.WriteString("Nothing was started.\n")
}

func writeReused(b *strings.Builder, d app.DryRun) {
	if d.Reused == 0 && d.NotReused == "" {
		return
	}
	fmt.Fprintf(b, "Reused: %s", plural.Count(d.Reused, "trial"))
	if d.NotReused != "" {
		fmt.Fprintf(b, " (the others: %s)", clean(d.NotReused))
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
			plural.Count(d.Layers, "time"), cell(strings.Join(d.LayerAgents, ", ")))
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
	text := fmt.Sprintf("about %s, by %s in %s", app.Brief(*e.Wall), plural.Count(e.Earlier, "earlier trial"), plural.Count(e.Jobs, "job"))
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
	text := fmt.Sprintf("about %s, by what %s cost before", report.Dollars(*e.Cost), plural.Count(e.Costed, "trial"))
	if e.Costed == 0 {
		text = fmt.Sprintf("about %s", report.Dollars(*e.Cost))
	}
	if e.CostByAgent > 0 {
		text += fmt.Sprintf("; %s counted as the mean of the agent", plural.Count(e.CostByAgent, "trial"))
	}
	if e.CostsUnknown > 0 {
		text += fmt.Sprintf("; without %s that nothing is known about", plural.Count(e.CostsUnknown, "trial"))
	}
	return text
}

func noEarlier(e app.Estimate, which string) string {
	if e.Jobs == 0 {
		return "there is no earlier job (--timings names one)"
	}
	return fmt.Sprintf("no trial in %s %s", plural.Count(e.Jobs, "earlier job"), which)
}
