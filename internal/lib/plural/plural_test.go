package plural

import "testing"

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 trials are", 1: "1 trial is", 2: "2 trials are", 1000: "1000 trials are"} {
		if got := Count(n, "trial") + " " + Are(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
