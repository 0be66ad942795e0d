package setup

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/proof"
	"github.com/org/rollout-action/internal/cli/command"
	"github.com/org/rollout-action/internal/cli/tables"
	"github.com/org/rollout-action/internal/lib/plural"
)

// checkDatasets prints how many tasks of a registry's datasets can run. After a cancellation it
// prints nothing.
func checkDatasets(ctx context.Context, v *command.Invocation, where string, labels []string, asJSON bool) error {
	board, err := proof.CheckRegistry(ctx, v.Host(), where, labels)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		n := len(board.Datasets) - board.Unchecked()
		return host.Cancelled(fmt.Sprintf("cancelled after %d of %s", n, plural.Count(len(board.Datasets), "dataset")))
	}
	if asJSON {
		err = v.PrintJSON(board.Datasets)
	} else {
		err = printScoreboard(v.Stdout, board)
	}
	if err != nil {
		return err
	}
	if n := board.Unchecked(); n > 0 {
		return &command.Failure{Code: command.ExitFailed, Err: fmt.Errorf("%s could not be checked", plural.Count(n, "dataset"))}
	}
	return nil
}

// maxReasons is how many reasons of a dataset are printed as text.
const maxReasons = 10

// printScoreboard prints a scoreboard as text: a table, then the reasons for refused tasks.
func printScoreboard(out io.Writer, board proof.Scoreboard) error {
	w := tables.New(out)
	header := []string{"NAME", "VERSION", "TASKS"}
	for _, p := range board.Providers {
		header = append(header, strings.ToUpper(p))
	}
	w.Row(header...)
	total, accepted := 0, map[string]int{}
	for _, d := range board.Datasets {
		row := []string{tables.Cell(d.Name), tables.Cell(d.Version), strconv.Itoa(d.Tasks)}
		for _, p := range board.Providers {
			if d.Error != "" {
				row = append(row, "-")
				continue
			}
			row, accepted[p] = append(row, strconv.Itoa(d.Accepted[p])), accepted[p]+d.Accepted[p]
		}
		if d.Error == "" {
			total += d.Tasks
		}
		w.Row(row...)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	var b strings.Builder
	for _, d := range board.Datasets {
		writeReasons(&b, d)
	}
	var sums []string
	for _, p := range board.Providers {
		sums = append(sums, fmt.Sprintf("%s %d", p, accepted[p]))
	}
	fmt.Fprintf(&b, "\n%s in %s; of %s that were checked, these can run: %s\n",
		plural.Count(len(board.Datasets), "dataset"), board.Registry, plural.Count(total, "task"), strings.Join(sums, ", "))
	_, err := io.WriteString(out, b.String())
	return err
}

// writeReasons writes why a dataset was not checked, or why its tasks are refused.
func writeReasons(b *strings.Builder, d proof.DatasetScore) {
	label := tables.Cell(d.Name)
	if d.Version != "" {
		label += "@" + tables.Cell(d.Version)
	}
	if d.Error != "" {
		fmt.Fprintf(b, "\nNot checked: %s\n  %s\n", label, d.Error)
		return
	}
	if len(d.Refused) > 0 {
		fmt.Fprintf(b, "\nRefused of %s\n", label)
	}
	shown := d.Refused[:min(len(d.Refused), maxReasons)]
	for _, r := range shown {
		on := strings.Join(r.Providers, ", ")
		if len(r.Providers) == len(d.Accepted) {
			on = "every provider"
		}
		fmt.Fprintf(b, "  %s on %s, such as %s: %s\n", plural.Count(r.Tasks, "task"), on, tables.Cell(r.Example), r.Reason)
	}
	if rest := d.Refused[len(shown):]; len(rest) > 0 {
		tasks := 0
		for _, r := range rest {
			tasks += r.Tasks
		}
		fmt.Fprintf(b, "  %s for %s (--json has them)\n", plural.Count(tasks, "task"), plural.Count(len(rest), "further reason"))
	}
}
