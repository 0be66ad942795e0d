package plural

import "testing"

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 trials are have were", 1: "1 trial is has was", 2: "2 trials are have were", 1000: "1000 trials are have were"} {
		if got := Count(n, "trial") + " " + Are(n) + " " + Have(n) + " " + Were(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
