package app

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/forge/github"
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
	Job     JobRequest
	Shards  string        // a number, or "auto": as many as Target needs
	Target  time.Duration // the time limit of a shard
	Timings string        // as in RunRequest
	// Comment is as in ReportOptions: with it, the comment of an earlier run says that this run is
	// in progress. "": it does not.
	Comment string
}

// Division is a job divided into shards.
type Division struct {
	Shards     []DividedShard
	Concurrent int // trials at a time in each
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
	var m Matrix
	for _, s := range d.Shards {
		entry := MatrixEntry{Shard: s.Shard.String(), Index: s.Index, Total: s.Total, Name: ShardName(s.Shard), Trials: s.Trials}
		if s.Wall != nil {
			entry.EstimatedSec = new(result.Seconds(*s.Wall))
		}
		m.Include = append(m.Include, entry)
	}
	return m
}

// setOutputs sets the outputs of a workflow step, if this is one.
func (d Division) setOutputs(getenv github.Getenv) error {
	matrix, err := json.Marshal(d.Matrix())
	if err != nil {
		return err
	}
	return errors.Join(
		github.SetOutput(getenv, "matrix", string(matrix)),
		github.SetOutput(getenv, "shards", strconv.Itoa(len(d.Shards))),
	)
}

// Divide divides a job among machines, and sets the outputs of a workflow step, if this is one. It
// contacts no provider.
func Divide(ctx context.Context, h *Host, req DivideRequest) (Division, error) {
	if req.Shards == "" {
		return Division{}, usage("--target, --timings and --comment are for a job that is divided: they need --shards")
	}
	if err := (ReportOptions{Comment: req.Comment}).check(); err != nil {
		return Division{}, err
	}
	if req.Target <= 0 {
		return Division{}, usage("--target %s: want a time, as in 20m", req.Target)
	}
	timings, err := readTimings(h.Paths, h.Output, req.Timings)
	if err != nil {
		return Division{}, err
	}
	req.Job.unused, req.Job.unrun = true, true
	p, err := loadPlan(ctx, h, req.Job)
	if err != nil {
		return Division{}, err
	}
	defer p.close()
	h.Output.Warnings(p.Warnings)
	if err := p.checkShardable(); err != nil {
		return Division{}, err
	}
	n, err := p.countShards(req, timings)
	if err != nil {
		return Division{}, err
	}
	d := p.divide(n, timings)
	if err := d.setOutputs(h.Getenv); err != nil {
		return d, err
	}
	a := h.announce(ctx, ReportOptions{Comment: req.Comment}, jobName{p.NameAsWritten, p.Job.Name}, h.Now())
	a.end(ctx, nil) // cancelled just now
	return d, nil
}

// countShards returns the number of shards for --shards, at most as many as can be non-empty.
func (p *planned) countShards(req DivideRequest, timings job.Timings) (int, error) {
	if req.Shards == "auto" {
		return p.enoughShards(req.Target, timings), nil
	}
	n, err := strconv.Atoi(req.Shards)
	if err != nil || n < 1 {
		return 0, usage("--shards %s: want a number from 1 to %d, or auto", req.Shards, maxMatrix)
	}
	if n > maxMatrix {
		return 0, usage("--shards %d: a GitHub matrix has at most %d jobs", n, maxMatrix)
	}
	if most := job.MostShards(p.specs); n > most {
		why := "no more trials"
		if most < len(p.specs) {
			why = "no more tasks, and judges with scope: group need all trials of a task in one shard"
		}
		linef(p.host.Output, "%s instead of %d, as the job has %s", plural.Count(most, "shard"), n, why)
		n = most
	}
	return n, nil
}

// enoughShards returns the number of shards for --shards auto.
func (p *planned) enoughShards(target time.Duration, timings job.Timings) int {
	concurrent := p.Job.NConcurrentTrials
	each, known := timings.Expect(p.specs)
	if !known {
		tasks := map[[2]string]bool{}
		for _, s := range p.specs {
			tasks[[2]string{s.Key.Dataset, s.Key.Task}] = true
		}
		all := float64(len(p.specs)) * guessedTrial.Seconds() / float64(concurrent)
		n := max(1, min(int(math.Ceil(all/target.Seconds())), guessedMost, len(tasks)))
		linef(p.host.Output, "How long these trials take is not known (--timings tells), so each is taken to need %s: %s for %s, with "+
			"no task divided and at most %d shards", Brief(guessedTrial), plural.Count(n, "shard"), plural.Count(len(p.specs), "trial"), guessedMost)
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
		linef(p.host.Output, "%s take %s, longer than the target of %s: %s", plural.Count(n, "shard"), Brief(wall), Brief(target), why)
	}
	return n
}

// divide divides the trials into n shards.
func (p *planned) divide(n int, timings job.Timings) Division {
	concurrent := p.Job.NConcurrentTrials
	each, known := timings.Expect(p.specs)
	d := Division{Concurrent: concurrent}
	for i, l := range job.Loads(job.Shards(p.specs, n, timings), n, each) {
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
