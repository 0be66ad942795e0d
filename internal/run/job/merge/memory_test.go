package merge

import (
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/test/jobtest"
)

// live returns the largest heap in use while do ran, after frequent collections, in bytes beyond
// the heap before; and the bytes that do allocated.
func live(do func()) (peak, allocated uint64) {
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	runtime.GC()
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before, allocs := sample[0].Value.Uint64(), sample[1].Value.Uint64()
	done, sampled := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sampled)
		mine := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		for {
			metrics.Read(mine)
			peak = max(peak, mine[0].Value.Uint64())
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond): // samples
			}
		}
	}()
	do()
	close(done)
	<-sampled
	metrics.Read(sample)
	return peak - min(peak, before), sample[1].Value.Uint64() - allocs
}

// TestSavingMemoryFollowsTheHeap holds more and more memory while it is saved.
func TestSavingMemoryFollowsTheHeap(t *testing.T) {
	now := func() int { p := debug.SetGCPercent(100); debug.SetGCPercent(p); return p }
	before := now()
	restore, inner := SaveMemory(), SaveMemory()
	inner()
	if got := now(); got != mostPercent {
		t.Errorf("with a small heap it is %d, want %d", got, mostPercent)
	}
	held := make([]byte, 4*spareBytes)
	for range 10_000 { // a cleanup sets it, which the runtime calls after a collection
		if now() <= 25 {
			break
		}
		runtime.GC()
	}
	if got := now(); got < leastPercent || got > 25 {
		t.Errorf("with %d bytes it is %d, want 25 or less", len(held), got)
	}
	runtime.KeepAlive(held)
	restore()
	for waits := true; waits; { // for the last time that it may be set
		runtime.GC()
		saving.Lock()
		waits = saving.waits
		saving.Unlock()
	}
	if got := now(); got != before {
		t.Errorf("afterwards it is %d, before it was %d", got, before)
	}
}

// TestMemoryDoesNotGrowWithTheNumberOfShards measures the memory that a merge holds and allocates:
// both depend on the number of trials alone. Each shard has the whole plan.
func TestMemoryDoesNotGrowWithTheNumberOfShards(t *testing.T) {
	const tasks = 200
	type need struct{ peak, allocated uint64 }
	needs := map[int]need{}
	for _, shards := range []int{2, 50} {
		dir := t.TempDir()
		trials, err := jobtest.WriteShards(filepath.Join(dir, "shards"), tasks, shards)
		if err != nil {
			t.Fatal(err)
		}
		var merged Result
		peak, allocated := live(func() {
			merged, err = Run(t.Context(), Options{Paths: []string{filepath.Join(dir, "shards")}, Output: filepath.Join(dir, "out")})
		})
		if err != nil || merged.Job.CompletedTrials != trials || len(merged.Incomplete) > 0 {
			t.Fatalf("%d shards: %v, %d of %d trials, %q", shards, err, merged.Job.CompletedTrials, trials, merged.Incomplete)
		}
		needs[shards] = need{peak, allocated}
		t.Logf("%d trials of %d shards: %d bytes a trial held, %d allocated", trials, shards, peak/uint64(trials), allocated/uint64(trials))
	}
	// The plan is several hundred kilobytes of text: if each shard's were read whole, 50 would take
	// more than that.
	if few, many := needs[2], needs[50]; many.peak > few.peak+10<<20 || many.allocated > few.allocated+20<<20 {
		t.Errorf("50 shards need %d bytes and allocate %d, two need %d and %d", many.peak, many.allocated, few.peak, few.allocated)
	}
	// 100,000 trials have to stay below 500 MB, also between two collections.
	if most := 4000 * uint64(tasks*10); needs[50].peak > most {
		t.Errorf("it holds %d bytes, more than %d", needs[50].peak, most)
	}
}
