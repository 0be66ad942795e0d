package packing

import (
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
)

type numbers struct {
	Floats []float64
	Ints   []int
	Texts  []string
}

func TestNumbersAreExact(t *testing.T) {
	want := numbers{
		Floats: []float64{0, math.Copysign(0, -1), 1, -1, 0.1, 1.234, -0.001, 0.000001, 1.0000001, 1.0 / 3, 1e-300, 1e300, 1 << 53, 1<<50 + 0.5, math.Inf(1), math.Inf(-1), math.MaxFloat64, math.SmallestNonzeroFloat64},
		Ints:   []int{0, 1, -1, math.MaxInt64, math.MinInt64},
		Texts:  []string{"", "a", "a", string(make([]byte, MaxShared))},
	}
	var p Packer
	form := FormOf[numbers]()
	for range 3 {
		var got numbers
		in, at := form.Pack(&p, &want)
		form.Unpack(in, at, &got)
		if !reflect.DeepEqual(got, want) || !math.Signbit(got.Floats[1]) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
	in, at := form.Pack(&p, &numbers{Floats: []float64{math.NaN()}})
	var got numbers
	if form.Unpack(in, at, &got); !math.IsNaN(got.Floats[0]) {
		t.Errorf("got %v, want NaN", got)
	}
}

// TestDenseBlocksAreSmallAndReadInAnyOrder packs many records like those of a job's trials.
func TestDenseBlocksAreSmallAndReadInAnyOrder(t *testing.T) {
	type record struct {
		Name, Digest string
		Reward       float64
		Seconds      float64
		Message      string
	}
	const n = 20000
	made := func(i int) record {
		sec := float64(i*7919%100000) / 1000
		return record{fmt.Sprint("task-", i/50), strings.Repeat("d", 64), float64(i % 2), sec, strings.Repeat("m", i%7*100)}
	}
	form := FormOf[record]()
	size := map[bool]int{}
	for _, dense := range []bool{false, true} {
		p := Packer{Dense: dense}
		in, at := make([]*Block, n), make([]int32, n)
		blocks := map[*Block]bool{}
		for i := range n {
			one := made(i)
			in[i], at[i] = form.Pack(&p, &one)
			blocks[in[i]] = true
		}
		for b := range blocks {
			size[dense] += b.Len()
		}
		var group sync.WaitGroup
		for step := range 4 { // forwards, backwards, and in two orders that jump
			group.Go(func() {
				for k := range n {
					i := []int{k, n - 1 - k, k * 7 % n, k * 50 % (n - 1)}[step]
					if step > 1 && k%10 > 0 {
						continue
					}
					var got record
					if form.Unpack(in[i], at[i], &got); got != made(i) {
						t.Errorf("record %d, read in order %d, is %+v", i, step, got)
						return
					}
				}
			})
		}
		group.Wait()
	}
	if size[true] > size[false]/3 {
		t.Errorf("dense blocks have %d bytes, others %d", size[true], size[false])
	}
}

// TestRecentValuesOfDenseBlocksAreBounded reads values that are far larger than a block and take
// little memory while they are compressed.
func TestRecentValuesOfDenseBlocksAreBounded(t *testing.T) {
	type record struct{ Text string }
	const n, size = 2 * maxRecent, 1 << 20
	form, p := FormOf[record](), Packer{Dense: true}
	in, at := make([]*Block, n), make([]int32, n)
	for i := range n {
		in[i], at[i] = form.Pack(&p, &record{strings.Repeat(string(rune('a'+i%26)), size+i)})
	}
	heap := func() int {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int(stats.HeapAlloc)
	}
	before := heap()
	for i := range n {
		var got record
		if form.Unpack(in[i], at[i], &got); len(got.Text) != size+i || got.Text[i] != byte('a'+i%26) {
			t.Fatalf("record %d has %d bytes", i, len(got.Text))
		}
	}
	if held := heap() - before; held > 4*size {
		t.Errorf("%d bytes of the values that were read are held", held)
	}
	runtime.KeepAlive(in)
}

func TestATypeThatCannotBePackedIsAPanic(t *testing.T) {
	for name, form := range map[string]func(){
		"an interface":          func() { FormOf[struct{ Any any }]() },
		"a field not exported":  func() { FormOf[struct{ n int }]() },
		"a channel in a struct": func() { FormOf[struct{ Of []struct{ C chan int } }]() },
	} {
		for range 2 { // the first panic leaves nothing behind
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s has a form", name)
					}
				}()
				form()
			}()
		}
	}
}
