package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/org/rollout-action/internal/github"
	"github.com/org/rollout-action/internal/job"
	"github.com/org/rollout-action/internal/plural"
	"github.com/org/rollout-action/internal/result"
	"github.com/org/rollout-action/internal/trial"
)

// maxMatrix is how many jobs a matrix may have. Source: docs.github.com, "Actions limits".
const maxMatrix = 256

// What is taken for granted where nothing is known of how long trials take.
const (
	guessedTrial = 5 * time.Minute
	// guessedMost is how many jobs run at a time on GitHub's free plan. Source: docs.github.com, "Actions limits".
	guessedMost = 20
)

// matrixFlags say how plan divides a job.
type matrixFlags struct {
	shards, timings string
	target          time.Duration
}

func (f *matrixFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.shards, "shards", "", "divide the job into so many shards, or auto: as many as --target needs")
	cmd.Flags().DurationVar(&f.target, "target", 15*time.Minute, "with --shards auto: how long a shard may take, as in 20m")
	addTimings(cmd, &f.timings)
}

// given reports whether the command line asks for shards.
func (f *matrixFlags) given(cmd *cobra.Command) bool {
	return cmd.Flags().Changed("shards") || cmd.Flags().Changed("target") || cmd.Flags().Changed("timings")
}

// matrix is what a GitHub workflow's strategy.matrix takes.
type matrix struct {
	Include []matrixEntry `json:"include"`
}

// matrixEntry is one shard. Shard is what run --shard takes, Name fits into the name of an artifact.
type matrixEntry struct {
	Shard        string   `json:"shard"`
	Index        int      `json:"index"`
	Total        int      `json:"total"`
	Name         string   `json:"name"`
	Trials       int      `json:"trials"`
	EstimatedSec *float64 `json:"estimated_sec,omitempty"` // until its last trial is over; nil: nothing is known
}

func (a *app) planShards(ctx context.Context, path string, flags jobFlags, division matrixFlags, asJSON bool) error {
	if division.shards == "" {
		return usage("--target and --timings say how to divide a job: they need --shards")
	}
	if division.target <= 0 {
		return usage("--target %s: want a time, as in 20m", division.target)
	}
	timings, err := a.timings(division.timings)
	if err != nil {
		return err
	}
	p, err := a.prepare(ctx, path, flags)
	if err != nil {
		return err
	}
	a.printWarnings(p.Warnings)
	n, err := a.countShards(p, division, timings)
	if err != nil {
		return err
	}
	m := newMatrix(p.specs, n, timings, p.Job.NConcurrentTrials)
	if err := a.outputMatrix(m); err != nil {
		return err
	}
	if asJSON {
		return a.printJSON(m)
	}
	return a.printMatrix(m, p.Job.NConcurrentTrials)
}

// countShards returns the number of shards that --shards asks for. None of them will be empty.
func (a *app) countShards(p *session, division matrixFlags, timings job.Timings) (int, error) {
	if division.shards == "auto" {
		return a.enoughShards(p, division.target, timings), nil
	}
	n, err := strconv.Atoi(division.shards)
	if err != nil || n < 1 {
		return 0, usage("--shards %s: want a number from 1 to %d, or auto", division.shards, maxMatrix)
	}
	if n > maxMatrix {
		return 0, usage("--shards %d: a GitHub matrix has at most %d jobs", n, maxMatrix)
	}
	if n > len(p.specs) {
		fmt.Fprintf(a.Stderr, "%s instead of %d, as the job has no more trials\n", plural.Count(len(p.specs), "shard"), n)
		n = len(p.specs)
	}
	return n, nil
}

// enoughShards returns the number of shards of --shards auto.
func (a *app) enoughShards(p *session, target time.Duration, timings job.Timings) int {
	concurrent := p.Job.NConcurrentTrials
	each, known := timings.Expect(p.specs)
	if !known {
		tasks := map[[2]string]bool{}
		for _, s := range p.specs {
			tasks[[2]string{s.Key.Dataset, s.Key.Task}] = true
		}
		all := float64(len(p.specs)) * guessedTrial.Seconds() / float64(concurrent)
		n := max(1, min(int(math.Ceil(all/target.Seconds())), guessedMost, len(tasks)))
		fmt.Fprintf(a.Stderr, "How long these trials take is not known (--timings tells), so each is taken to need %s: %s for %s, with "+
			"no task divided and at most %d shards\n", brief(guessedTrial), plural.Count(n, "shard"), plural.Count(len(p.specs), "trial"), guessedMost)
		return n
	}
	n := job.ShardsNeeded(p.specs, timings, concurrent, target, maxMatrix)
	var wall time.Duration
	for _, l := range job.Loads(job.Shards(p.specs, n, timings), n, each) {
		wall = max(wall, l.Wall(concurrent))
	}
	if wall > target {
		why := "more shards would not help"
		if n == maxMatrix {
			why = "a workflow can start no more"
		}
		fmt.Fprintf(a.Stderr, "%s take %s, longer than the target of %s: %s\n", plural.Count(n, "shard"), brief(wall), brief(target), why)
	}
	return n
}

func newMatrix(specs []trial.Spec, n int, timings job.Timings, concurrent int) matrix {
	each, known := timings.Expect(specs)
	var m matrix
	for i, l := range job.Loads(job.Shards(specs, n, timings), n, each) {
		shard := result.Shard{Index: i + 1, Total: n}
		entry := matrixEntry{Shard: shard.String(), Index: shard.Index, Total: n, Name: shardName(shard), Trials: l.Trials}
		if known {
			entry.EstimatedSec = new(result.Seconds(l.Wall(concurrent)))
		}
		m.Include = append(m.Include, entry)
	}
	return m
}

// outputMatrix sets the outputs of a workflow's step, if this is one.
func (a *app) outputMatrix(m matrix) error {
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := github.SetOutput(a.Getenv, "matrix", string(bytes.TrimSpace(line))); err != nil {
		return err
	}
	return github.SetOutput(a.Getenv, "shards", strconv.Itoa(len(m.Include)))
}

func (a *app) printMatrix(m matrix, concurrent int) error {
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SHARD\tTRIALS\tEXPECTED")
	trials := 0
	for _, e := range m.Include {
		expected := "not known"
		if e.EstimatedSec != nil {
			expected = brief(time.Duration(*e.EstimatedSec * float64(time.Second)))
		}
		fmt.Fprintf(w, "%s\t%d\t%s\n", e.Shard, e.Trials, expected)
		trials += e.Trials
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.Stdout, "\n%s in %s, %d at a time in each\n", plural.Count(trials, "trial"), plural.Count(len(m.Include), "shard"), concurrent)
	return err
}

// brief formats a duration as people write it: 1h5m, 20m, 1m30s, 4.5s, 20ms.
func brief(d time.Duration) string {
	switch {
	case d < 50*time.Millisecond:
		return d.Round(time.Millisecond).String()
	case d >= time.Hour:
		d = d.Round(time.Minute)
	case d >= 10*time.Second:
		d = d.Round(time.Second)
	default:
		return strconv.FormatFloat(d.Round(100*time.Millisecond).Seconds(), 'f', -1, 64) + "s"
	}
	var b []byte
	for _, part := range []struct {
		unit time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if n := d / part.unit; n > 0 {
			b = append(strconv.AppendInt(b, int64(n), 10), part.name...)
		}
		d %= part.unit
	}
	return string(b)
}
