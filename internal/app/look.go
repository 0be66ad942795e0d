package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/forge/github/step"
	"github.com/org/rollout-action/internal/lib/plural"
	"github.com/org/rollout-action/internal/run/job/merge"
)

// Looked is what a look at the shards of a job decided, whose attempts are made in rounds.
type Looked struct {
	Division        // the shards of the next round, with the trials that they make in it
	Round    int    // the next round; 0: none follows
	Note     string // a sentence for the user
	// Incomplete says which shards have not made what they were told to make; "": all have. Else no
	// round follows, because no look can be at all tasks.
	Incomplete string
}

// Look looks at the shards of a job after a round (gate.stop), and sets the outputs of a workflow
// step, if this is one: the matrix of the next round, which is empty if none follows. It writes
// nothing else.
func Look(ctx context.Context, h *host.Host, req reporting.MergeRequest) (Looked, error) {
	made, looked, err := reporting.Look(ctx, h, req)
	if err != nil {
		return Looked{}, err
	}
	out := Looked{Note: looked.Note}
	switch {
	case made == nil:
		out.Note = "the shards make no rounds that a look could end (gate.stop): put them together with rollout merge"
	case looked.Next > 0:
		out.Round = looked.Next
		out.Division = roundOf(*made, looked.Next)
	}
	if err := errors.Join(out.setOutputs(h.Getenv, out.Round), step.SetOutput(h.Getenv, "baseline", looked.Source)); err != nil {
		return out, err
	}
	if len(looked.Missing) > 0 {
		out.Incomplete = incomplete(*made, looked.Missing)
	}
	return out, nil
}

// incomplete says which shards have not made what they were told to make.
func incomplete(made merge.Made, missing []result.Key) string {
	of, lacks := make(map[result.Key]int, made.Plan.Trials.Len()), map[int]int{}
	for i, key := range made.Plan.Trials.All() {
		of[key] = made.ShardOf[i]
	}
	for _, key := range missing {
		lacks[of[key]]++
	}
	var shards []string
	for _, index := range slices.Sorted(maps.Keys(lacks)) {
		shards = append(shards, fmt.Sprintf("shard %s lacks %s", result.Shard{Index: index, Total: made.Total}, plural.Count(lacks[index], "trial")))
	}
	return "the round is not complete, so nothing can be decided: " + host.Joined(shards) + ". Run these shards again with the same --round"
}

// roundOf divides the trials of a round as the job is divided. Shards that have made all attempts
// are left out.
func roundOf(made merge.Made, round int) Division {
	has, left, open := map[result.Key]bool{}, map[int]int{}, map[int]bool{}
	for _, t := range made.Trials {
		has[t.Key] = true
	}
	for i, key := range made.Plan.Trials.All() {
		if has[key] {
			continue
		}
		open[made.ShardOf[i]] = true
		if key.Attempt <= round {
			left[made.ShardOf[i]]++
		}
	}
	var d Division
	for index := 1; index <= made.Total; index++ {
		if open[index] {
			d.Shards = append(d.Shards, DividedShard{Shard: result.Shard{Index: index, Total: made.Total}, Trials: left[index]})
		}
	}
	return d
}
