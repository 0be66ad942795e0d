package app

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/app/stages"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/forge/github"
	"github.com/org/rollout-action/internal/forge/github/step"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/run/job"
)

// maxMatrix is how many jobs a matrix may have. Source: docs.github.com, "Actions limits".
const maxMatrix = 256

// Assumptions for trials of unknown duration.
const (
	guessedTrial = 5 * time.Minute
	// guessedMost is how many jobs run at a time on GitHub's free plan. Source: docs.github.com,
	// "Actions limits".
	guessedMost = 20
)

// DivideRequest is the request of Divide.
type DivideRequest struct {
	Job     stages.JobRequest
	Shards  string        // a number, or "auto": as many as Target needs
	Target  time.Duration // the time limit of a shard
	Timings string        // as in RunRequest
	// Comment is as in ReportOptions: with it, the comment of an earlier run says that this run is
	// in progress. "": it does not.
	Comment string
	// Estimate puts the trials that would run, and their cost by the results of Baseline (as in
	// ReportOptions), into Division.Ahead and into the comment, which is created if there is none.
	Estimate bool
	Baseline string
	Stored   reporting.StoredAt
	// What the run will be asked for (as in RunRequest), which an estimate counts.
	Reuse                   []string
	Against, ConfirmAgainst string
}

// Division is a job divided into shards.
type Division struct {
	Shards     []DividedShard
	Concurrent int    // trials at a time in each
	InRounds   bool   // each shard makes one round, and a look decides about the next (gate.stop)
	AtMost     bool   // the job may end before all trials (gate.stop)
	Ahead      *Ahead // nil without DivideRequest.Estimate
}

// DividedShard is one part of a job.
type DividedShard struct {
	result.Shard
	Trials int
	Wall   *time.Duration // until its last trial is over; nil: nothing is known
}

// Matrix is the strategy.matrix of a GitHub workflow.
type Matrix struct {
	Include []MatrixEntry `json:"include"`
}

// MatrixEntry is one shard. Shard is the value for run --shard; Name is safe in the name of an
// artifact.
type MatrixEntry struct {
	Shard        string   `json:"shard"`
	Index        int      `json:"index"`
	Total        int      `json:"total"`
	Name         string   `json:"name"`
	Trials       int      `json:"trials"`
	EstimatedSec *float64 `json:"estimated_sec,omitempty"` // until its last trial is over; nil: nothing is known
}

// Matrix returns the division as a workflow's matrix.
func (d Division) Matrix() Matrix {
	m := Matrix{Include: []MatrixEntry{}} // GitHub refuses null
	for _, s := range d.Shards {
		entry := MatrixEntry{Shard: s.Shard.String(), Index: s.Index, Total: s.Total, Name: reporting.ShardName(s.Shard), Trials: s.Trials}
		if s.Wall != nil {
			entry.EstimatedSec = new(result.Seconds(*s.Wall))
		}
		m.Include = append(m.Include, entry)
	}
	return m
}

// setOutputs sets the outputs of a workflow step, and does nothing outside of workflows. The shards
// make the attempts of a round; if it is 0, they make all attempts.
func (d Division) setOutputs(getenv github.Getenv, round int) error {
	matrix, err := json.Marshal(d.Matrix())
	if err != nil {
		return err
	}
	of := ""
	if round > 0 {
		of = strconv.Itoa(round)
	}
	return errors.Join(
		step.SetOutput(getenv, "matrix", string(matrix)),
		step.SetOutput(getenv, "shards", strconv.Itoa(len(d.Shards))),
		step.SetOutput(getenv, "round", of),
	)
}

// Divide divides a job among machines, and sets the outputs of a workflow step, if this is one. It
// contacts no provider.
func Divide(ctx context.Context, h *host.Host, req DivideRequest) (Division, error) {
	if req.Shards == "" && req.Estimate { // which says something about a whole job, too
		req.Shards = "1"
	}
	if req.Shards == "" {
		return Division{}, host.Usagef("--target, --timings and --comment are for a job that is divided: they need --shards")
	}
	if err := (reporting.ReportOptions{Comment: req.Comment}).Check(); err != nil {
		return Division{}, err
	}
	if req.Target <= 0 {
		return Division{}, host.Usagef("--target %s: want a time, as in 20m", req.Target)
	}
	timings, err := stages.ReadTimings(h.Paths, h.Output, req.Timings)
	if err != nil {
		return Division{}, err
	}
	req.Job.Unused, req.Job.Unrun = true, true
	p, err := stages.LoadPlan(ctx, h, req.Job)
	if err != nil {
		return Division{}, err
	}
	defer p.Close()
	h.Output.Warnings(p.Warnings)
	if err := p.CheckShardable(); err != nil {
		return Division{}, err
	}
	n, err := countShards(p, req, timings)
	if err != nil {
		return Division{}, err
	}
	d := divide(p, n, timings)
	d.InRounds, d.AtMost = p.InRounds(n), p.MayEndEarly()
	round := 0
	if d.InRounds {
		round = 1
	}
	if err := d.setOutputs(h.Getenv, round); err != nil {
		return d, err
	}
	run := reporting.Ahead{Commit: p.Checkout().Commit}
	if req.Estimate && n > 0 {
		if d.Ahead, err = lookAhead(ctx, p, req, n, timings); err != nil {
			return d, err
		}
		run.Estimate = d.Ahead.markdown()
	}
	a := reporting.Announce(ctx, h, reporting.ReportOptions{Comment: req.Comment}, reporting.JobName{NamedAs: p.NameAsWritten, Name: p.Job.Name}, h.Now(), run)
	a.End(ctx, nil) // cancelled just now
	return d, nil
}

// countShards returns the number of shards for --shards, at most as many as can be non-empty. It is
// 0 if nothing that changed can affect a trial.
func countShards(p *stages.Planned, req DivideRequest, timings job.Timings) (int, error) {
	if p.NothingAffected() {
		return 0, nil
	}
	if req.Shards == "auto" {
		return enoughShards(p, req.Target, timings), nil
	}
	n, err := strconv.Atoi(req.Shards)
	if err != nil || n < 1 {
		return 0, host.Usagef("--shards %s: want a number from 1 to %d, or auto", req.Shards, maxMatrix)
	}
	if n > maxMatrix {
		return 0, host.Usagef("--shards %d: a GitHub matrix has at most %d jobs", n, maxMatrix)
	}
	if most := job.MostShards(p.Specs); n > most {
		why := "no more trials"
		if most < len(p.Specs) {
			why = "no more tasks, and judges with scope: group need all trials of a task in one shard"
		}
		host.Linef(p.Host.Output, "%s instead of %d, as the job has %s", plural.Count(most, "shard"), n, why)
		n = most
	}
	return n, nil
}

// enoughShards returns the number of shards for --shards auto.
func enoughShards(p *stages.Planned, target time.Duration, timings job.Timings) int {
	concurrent := p.Job.NConcurrentTrials
	each, known := timings.Expect(p.Specs)
	if !known {
		tasks := map[[2]string]bool{}
		for _, s := range p.Specs {
			tasks[[2]string{s.Key.Dataset, s.Key.Task}] = true
		}
		all := float64(len(p.Specs)) * guessedTrial.Seconds() / float64(concurrent)
		n := max(1, min(int(math.Ceil(all/target.Seconds())), guessedMost, len(tasks)))
		host.Linef(p.Host.Output, "How long these trials take is not known (--timings tells), so each is taken to need %s: %s for %s, with "+
			"no task divided and at most %d shards", Brief(guessedTrial), plural.Count(n, "shard"), plural.Count(len(p.Specs), "trial"), guessedMost)
		return n
	}
	n := job.ShardsNeeded(p.Specs, timings, concurrent, target, maxMatrix)
	var wall time.Duration
	for _, l := range job.Loads(job.Shards(p.Specs, n, timings), n, each) {
		wall = max(wall, l.Wall(concurrent))
	}
	if wall > target {
		why := "more shards would not help"
		if n == maxMatrix {
			why = "a workflow can start no more"
		}
		host.Linef(p.Host.Output, "%s take %s, longer than the target of %s: %s", plural.Count(n, "shard"), Brief(wall), Brief(target), why)
	}
	return n
}

// divide divides the trials into n shards.
func divide(p *stages.Planned, n int, timings job.Timings) Division {
	concurrent := p.Job.NConcurrentTrials
	each, known := timings.Expect(p.Specs)
	d := Division{Concurrent: concurrent}
	for i, l := range job.Loads(job.Shards(p.Specs, n, timings), n, each) {
		shard := DividedShard{Shard: result.Shard{Index: i + 1, Total: n}, Trials: l.Trials}
		if known {
			shard.Wall = new(l.Wall(concurrent))
		}
		d.Shards = append(d.Shards, shard)
	}
	return d
}

// Brief formats a duration briefly: 1h5m, 20m, 1m30s, 4.5s, 20ms.
func Brief(d time.Duration) string {
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
