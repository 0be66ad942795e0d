package main

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/providers/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Init()
	os.Exit(m.Run())
}

func TestTurnsInterleavesAndDropsWarmUps(t *testing.T) {
	var order []string
	counting := func(name string) measured {
		n := 0.0
		return func(context.Context) (float64, error) {
			order = append(order, name)
			n++
			return n, nil
		}
	}
	values, err := turns(t.Context(), 1, 2, counting("a"), counting("b"))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(order, ""); got != "ababab" {
		t.Errorf("the order was %s", got)
	}
	for _, v := range values {
		if !slices.Equal(v, []float64{2, 3}) {
			t.Errorf("the values are %v", v)
		}
	}
}

func TestMeasurementsAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range measurements {
		if seen[m.name] {
			t.Errorf("%s is there twice", m.name)
		}
		seen[m.name] = true
		if m.target.bound <= 0 || m.target.of != "ours" && m.floorIs == "" {
			t.Errorf("%s: its target %s cannot be checked", m.name, m.target)
		}
		if !slices.ContainsFunc(parts, func(p part) bool { return strings.HasPrefix(m.name, p.name+".") }) {
			t.Errorf("%s belongs to no part", m.name)
		}
	}
}

func TestWrongUsage(t *testing.T) {
	for _, args := range [][]string{{"--only", "everything"}, {"--rounds", "0"}, {"docker"}, {"--nonsense"}} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), args, &out, &errs); code != 2 || out.Len() > 0 || errs.Len() == 0 {
			t.Errorf("%v: code %d\n%s%s", args, code, &out, &errs)
		}
	}
}
