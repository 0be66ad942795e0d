package job

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
)

func TestPrunable(t *testing.T) {
	limit := time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC)
	old, young := limit.Add(-time.Nanosecond), limit
	img := func(id string, used time.Time, needs ...string) environment.Image {
		return environment.Image{ID: id, Used: used, Needs: needs}
	}
	inUse := func(i environment.Image) environment.Image { i.InUse = true; return i }
	for _, tc := range []struct {
		name   string
		images []environment.Image
		want   string
	}{
		{"what is old goes, what is younger stays", []environment.Image{img("a", old), img("b", young)}, "a"},
		{"what is in use stays, however old", []environment.Image{inUse(img("a", old)), img("b", old)}, "b"},
		{"what a young one stands on stays, at any depth", []environment.Image{img("base", old), img("layer", old, "base"), img("top", young, "layer"), img("other", old, "base")}, "other"},
		{"what one in use stands on stays", []environment.Image{img("base", old), inUse(img("layer", old, "base"))}, ""},
		{"what needs goes before what it needs", []environment.Image{img("base", old.AddDate(0, 0, -9)), img("layer", old, "base"), img("top", old.AddDate(0, 0, -1), "layer", "base")}, "top layer base"},
		{"what is not in the list is nobody's need", []environment.Image{img("a", old, "pulled")}, "a"},
		{"a circle ends", []environment.Image{img("a", old, "b"), img("b", old, "a")}, "b a"},
		{"the oldest first", []environment.Image{img("b", old), img("a", old), img("c", old.AddDate(-1, 0, 0))}, "c a b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := slices.Clone(tc.images)
			var got []string
			for _, i := range Prunable(tc.images, limit) {
				got = append(got, i.ID)
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("%q may go, want %q", got, tc.want)
			}
			if !slices.EqualFunc(before, tc.images, func(a, b environment.Image) bool { return a.ID == b.ID }) {
				t.Error("the list was changed")
			}
		})
	}
}
