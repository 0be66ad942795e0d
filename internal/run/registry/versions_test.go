package registry

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestVersionsAreOrderedByPEP440(t *testing.T) {
	want := []string{ // PEP 440, "Summary of permitted suffixes and relative ordering", and more
		"alpha", "lite200", "main",
		"0.9", "1.dev0", "1.0.dev456", "1.0a1", "1.0a2.dev456", "1.0a12.dev456", "1.0a12", "1.0b1.dev456", "1.0b2", "1.0b2.post345.dev456",
		"1.0b2.post345", "1.0rc1.dev456", "1.0rc1", "1.0", "1.0+abc.5", "1.0+abc.7", "1.0+5", "1.0.post456.dev34", "1.0.post456", "1.0.15",
		"1.1.dev1", "1.9", "1.10", "v2.0", "6.0", "2026.2", "1!0.1",
	}
	got := slices.Clone(want)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
	slices.SortFunc(got, compareVersions)
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestPreferred(t *testing.T) {
	for _, tc := range []struct {
		name     string
		versions []string
		want     string
	}{
		{"head wins", []string{"99", "head", "main"}, "head"},
		{"the highest number", []string{"1.9", "1.10", "1.2"}, "1.10"},
		{"numbers before words", []string{"zeta", "0.1", "alpha"}, "0.1"},
		{"the last word", []string{"all", "manager", "ic"}, "manager"},
		{"none", nil, ""},
		{"only the empty one", []string{""}, ""},
	} {
		if got := Preferred(tc.versions); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
