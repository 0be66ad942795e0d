package packing

import (
	"math"
	"reflect"
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
