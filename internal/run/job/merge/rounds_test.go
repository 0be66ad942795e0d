package merge

import (
	"slices"
	"testing"

	"github.com/org/rollout-action/internal/core/result"
)

// TestRoundsOfShards: a shard says which of its own trials it did not need, and one that was
// interrupted needs all that it lacks.
func TestRoundsOfShards(t *testing.T) {
	var trials []result.Key
	for _, task := range []string{"a", "b", "c"} {
		for n := range 2 {
			trials = append(trials, result.Key{Agent: "x", Dataset: "d", Task: task, Attempt: n + 1})
		}
	}
	second := []result.Key{trials[1], trials[3], trials[5]}
	shard := func(index int, r *result.Rounds) *shardDir {
		return &shardDir{index: index, total: 3, plan: result.Plan{Rounds: r}}
	}
	m := &merge{total: 3, shardOf: []int{1, 1, 2, 2, 3, 3}, parts: []*shardDir{
		shard(1, &result.Rounds{Attempts: 2, Made: 1, Reason: result.EndSettled, Why: "settled", NotNeeded: second}), // more than its own
		shard(2, &result.Rounds{Attempts: 2, Made: 2, Reason: result.EndSettled, Why: "settled"}),
		shard(3, &result.Rounds{Attempts: 2}),
	}}
	got := m.rounds(result.KeysOf(trials...))
	if got == nil || got.Made != 2 || got.Reason != result.EndSettled || !slices.Equal(got.NotNeeded, second[:1]) {
		t.Errorf("%+v", got)
	}
	for _, p := range m.parts {
		p.plan.Rounds = nil
	}
	if got := m.rounds(result.KeysOf(trials...)); got != nil {
		t.Errorf("%+v of shards without rounds", got)
	}
}
