package quantity

import (
	"math"
	"testing"
)

func TestSize(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0 bytes", 1023: "1023 bytes", 1024: "1.0 KiB", 1<<20 - 1: "1023.9 KiB", 3 << 19: "1.5 MiB", 512 << 20: "512.0 MiB",
		1 << 30: "1.0 GiB", 1 << 40: "1.0 TiB", math.MaxInt64: "8388607.9 TiB",
	} {
		if got := Size(bytes); got != want {
			t.Errorf("%d: %q, want %q", bytes, got, want)
		}
	}
}
