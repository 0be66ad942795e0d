package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/lib/bounded"
)

// madeKeys returns the keys of attempts at tasks, in the order of a plan.
func madeKeys(tasks, attempts int) []Key {
	var all []Key
	for i := range tasks {
		for n := range attempts {
			all = append(all, Key{Agent: "an-agent", Dataset: "a-dataset", Task: fmt.Sprintf("the-name-of-task-%05d", i), Attempt: n + 1})
		}
	}
	return all
}

func TestKeysAreThoseOfASlice(t *testing.T) {
	hostile := []Key{
		{}, {Task: "t"}, {Task: "t", Attempt: math.MaxInt}, {Task: "t", Attempt: math.MinInt}, {Task: "t", Attempt: math.MaxInt32 + 1}, {Task: "t", Attempt: -1},
		{Agent: hostileName, Dataset: "<&>", Task: "t"}, {Task: "t", Attempt: math.MaxInt}, {Dataset: "t"}, {Agent: "t"}, {},
	}
	shuffled := madeKeys(10, 3)
	slices.SortFunc(shuffled, func(a, b Key) int { return a.Attempt - b.Attempt })
	for _, want := range [][]Key{nil, {}, {{}}, hostile, madeKeys(20, 3), shuffled} {
		l := Keys{}
		if want != nil {
			l = KeysOf(want...)
		}
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(l); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%v: encoded as\n%s\nwant\n%s", err, got, text)
		}
		decoded, read := []Key(nil), Keys{}
		if err := errors.Join(json.Unmarshal(text, &decoded), json.Unmarshal(text, &read)); err != nil {
			t.Error(err)
		}
		var appended Keys
		for _, k := range want {
			appended.Append(k)
		}
		half := len(want) / 2
		with := KeysOf(want[:half]...)
		other := with
		with.Append(want[half:]...)
		where := with.Where(func(i int, k Key) bool { return i < half && k == want[i] })
		for name, c := range map[string]struct {
			got  Keys
			want []Key
		}{"made": {l, want}, "read": {read, decoded}, "appended": {appended, want}, "continued": {with, want}, "where": {where, want[:half]}, "a copy": {other, want[:half]}} {
			if got := c.got.Slice(); !slices.Equal(got, c.want) || c.got.Len() != len(c.want) || (name == "made" || name == "read") && (got == nil) != (c.want == nil) {
				t.Errorf("%s: %v, want %v", name, got, c.want)
			}
		}
	}
}

func TestKeysOfOtherTypesAreRefused(t *testing.T) {
	for _, text := range []string{`{"trials":{}}`, `{"trials":"a"}`, `{"trials":[1]}`, `{"trials":[{"attempt":"1"}]}`, `{"trials":[{}`, `{"trials":[{} {}]}`, `{"trials":[{"attempt":1e99},{}],"metrics":[]}`} {
		var slice struct{ Trials []Key }
		var p Plan
		want, err := bounded.Unmarshal([]byte(text), &slice), bounded.Unmarshal([]byte(text), &p)
		if err == nil || want == nil || strings.Contains(want.Error(), "syntax") != strings.Contains(err.Error(), "syntax") {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
}

// held returns the bytes of memory that a value takes.
func held[T any](make func() T) int {
	heap := func() int {
		runtime.GC()
		runtime.GC() // pools need two
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int(stats.HeapAlloc)
	}
	before := heap()
	value := make()
	took := heap() - before
	runtime.KeepAlive(value)
	return took
}

func TestKeysTakeLittleMemory(t *testing.T) {
	const tasks, attempts = 100, 200
	all := madeKeys(tasks, attempts)
	names := tasks * (56 + 32) // with the texts that decoding allocates
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	for name, make := range map[string]func() Keys{
		"made": func() Keys { return KeysOf(all...) },
		"read": func() Keys {
			var p Plan
			if err := bounded.Unmarshal(fmt.Appendf(nil, `{"trials":%s}`, text), &p); err != nil {
				t.Error(err)
			}
			return p.Trials
		},
	} {
		make() // whatever is allocated only once
		took := held(make)
		t.Logf("%s: %d bytes for %d keys", name, took, len(all))
		if took > 10*len(all)+2*names {
			t.Errorf("%s: %d bytes for %d keys, of which names should take %d", name, took, len(all), names)
		}
	}
}
