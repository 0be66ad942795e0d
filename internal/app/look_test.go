package app

import (
	"testing"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/run/job/merge"
)

// TestRoundOf: a shard whose attempts of a round are there already, because they were reused, is
// asked for the round, too, as long as it lacks later ones: the last round makes all that are left.
func TestRoundOf(t *testing.T) {
	var made merge.Made
	made.Total = 3
	for shard := 1; shard <= 3; shard++ {
		for attempt := 1; attempt <= 3; attempt++ {
			key := result.Key{Agent: "a", Dataset: "d", Task: string(rune('a' + shard)), Attempt: attempt}
			made.Plan.Trials.Append(key)
			made.ShardOf = append(made.ShardOf, shard)
			if attempt <= shard {
				made.Trials = append(made.Trials, result.Trial{Key: key})
			}
		}
	}
	got := roundOf(made, 2).Shards
	if len(got) != 2 || got[0].String() != "1/3" || got[0].Trials != 1 || got[1].String() != "2/3" || got[1].Trials != 0 {
		t.Errorf("%+v", got)
	}
}
