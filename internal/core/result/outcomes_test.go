package result

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// madeOutcomes returns outcomes with everything that a file can have in them, of few tasks.
func madeOutcomes(n int) []Outcome {
	r := rand.New(rand.NewPCG(3, 4))
	all := make([]Outcome, n)
	for i := range all {
		fill(r, reflect.ValueOf(&all[i]).Elem(), 0)
		if o := &all[i]; i%2 > 0 {
			o.Agent, o.Dataset, o.Task, o.TaskDigest, o.Attempt = "a", "d", string(rune('a'+r.IntN(5))), string(rune('a'+r.IntN(2))), r.IntN(3)
		}
	}
	return all
}

func TestAListReturnsTheOutcomesThatItWasGiven(t *testing.T) {
	all := madeOutcomes(400)
	for i := range reflect.TypeFor[Outcome]().NumField() {
		if !slices.ContainsFunc(all, func(o Outcome) bool { return !reflect.ValueOf(o).Field(i).IsZero() }) {
			t.Fatalf("no outcome has a %s", reflect.TypeFor[Outcome]().Field(i).Name)
		}
	}
	l := OutcomesOf(all...)
	for i, want := range all {
		if got := l.At(i); !reflect.DeepEqual(got, want) {
			t.Fatalf("outcome %d:\ngot  %#v\nwant %#v", i, got, want)
		}
	}
	var changed Outcomes
	changed.AppendAll(l)
	for i := range all { // in another order, so that each is another one
		changed.Change(i, func(o *Outcome) { *o = all[len(all)-1-i] })
	}
	for i, got := range changed.All() {
		if want := all[len(all)-1-i]; !reflect.DeepEqual(got, want) {
			t.Fatalf("outcome %d was changed to\n%#v\nwant %#v", i, got, want)
		}
		if !reflect.DeepEqual(l.At(i), all[i]) {
			t.Fatalf("outcome %d of the other list was changed", i)
		}
	}
}

func TestAListIsSortedByKeyAsASliceIs(t *testing.T) {
	want := madeOutcomes(400)
	l := OutcomesOf(want...)
	slices.SortStableFunc(want, func(a, b Outcome) int { return a.Key.Compare(b.Key) })
	sorted, still := l.Sorted(), OutcomesOf(want...)
	for i, o := range want {
		if got := sorted.At(i); !reflect.DeepEqual(got, o) {
			t.Fatalf("outcome %d is\n%#v\nwant %#v", i, got, o)
		}
	}
	if again := still.Sorted(); &again.rows[0] != &still.rows[0] {
		t.Error("a sorted list was copied")
	}
	some := func(o Outcome) bool { return o.Reused }
	chosen, others := slices.DeleteFunc(slices.Clone(want), func(o Outcome) bool { return !some(o) }), slices.DeleteFunc(slices.Clone(want), some)
	for name, c := range map[string]struct {
		got  Outcomes
		want []Outcome
	}{
		"where": {sorted.Where(some), chosen}, "without": {sorted.Without(some), others},
		"all": {sorted.Where(func(Outcome) bool { return true }), want}, "none": {sorted.Where(func(Outcome) bool { return false }), nil},
	} {
		c.got.Append(want[0])
		if c.got.Len() != len(c.want)+1 {
			t.Fatalf("%s: %d outcomes, want %d", name, c.got.Len(), len(c.want)+1)
		}
		for i, o := range c.want {
			if !reflect.DeepEqual(c.got.At(i), o) {
				t.Fatalf("%s: outcome %d is\n%#v\nwant %#v", name, i, c.got.At(i), o)
			}
		}
	}
}

// TestTheIndexOfTasksIsSmall has tasks in no order, each with another name: the index has 16
// bytes for each, and names would have 64 more.
func TestTheIndexOfTasksIsSmall(t *testing.T) {
	const n = 100_000
	index := held(func() map[uint64]int32 {
		var l Outcomes
		for i := n; i > 0; i-- {
			l.Append(Outcome{Key: Key{Task: strconv.Itoa(i + 1e6)}})
		}
		return l.index
	})
	if index < 12*n || index > 48*n {
		t.Errorf("the index of %d tasks has %d bytes", n, index)
	}
}

func TestCommonYieldsTheOutcomesOfOneKey(t *testing.T) {
	of := func(all ...string) (l Outcomes) {
		for i, task := range all {
			l.Append(Outcome{Key: Key{Agent: "a", Task: task}, DurationSec: float64(i)})
		}
		return l
	}
	for want, lists := range map[string][2]Outcomes{
		"":             {of(), of("a")},
		"a02 ":         {of("a", "b"), of("d", "c", "a")},
		"a10 a11 c03 ": {of("c", "a", "a"), of("a", "a", "b", "c")},
		"a00 b11 c22 ": {of("a", "b", "c"), of("a", "b", "c")},
		"a20 b11 c02 ": {of("c", "b", "a"), of("a", "b", "c")},
	} {
		got := ""
		for x, y := range lists[0].Common(lists[1]) {
			if x.Key != y.Key {
				t.Errorf("%v and %v", x.Key, y.Key)
			}
			got += fmt.Sprint(x.Task, x.DurationSec, y.DurationSec, " ")
		}
		if got = strings.ReplaceAll(got, " ", ""); got != strings.ReplaceAll(want, " ", "") {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestAListIsEncodedAsASliceIs(t *testing.T) {
	year := func(o Outcome) bool { return o.StartedAt.Year() > 9999 }
	all := slices.DeleteFunc(madeOutcomes(100), year) // JSON has no such year
	for i := range all {
		all[i].StartedAt = all[i].StartedAt.Truncate(time.Second)
	}
	for _, outcomes := range [][]Outcome{nil, {}, all[:1], all} {
		l := Outcomes{}
		if outcomes != nil {
			l = OutcomesOf(outcomes...)
		}
		want, err := json.Marshal(outcomes)
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(l)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%v:\n%s\nwant\n%s", err, got, want)
		}
		var read Outcomes
		if err := json.Unmarshal(got, &read); err != nil || read.Len() != l.Len() || (read.rows == nil) != (l.rows == nil) {
			t.Fatalf("%v: read %d of %d", err, read.Len(), l.Len())
		}
		var slice []Outcome
		if err := json.Unmarshal(want, &slice); err != nil {
			t.Fatal(err)
		}
		for i, o := range slice {
			if !reflect.DeepEqual(read.At(i), o) {
				t.Fatalf("outcome %d was read as\n%#v\nwant %#v", i, read.At(i), o)
			}
		}
	}
}
