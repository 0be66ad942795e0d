package inside

import (
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/providers/internal/wire"
)

// TestTooManyLayersAreRefused: the kernel cuts options that are longer than a page without a word, and mounts what is left.
func TestTooManyLayersAreRefused(t *testing.T) {
	lower := slices.Repeat([]string{"l/0123456789abcdef01234567/root"}, 200)
	err := mountOverlay(wire.Setup{Root: t.TempDir()}, wire.Mount{At: "/", Lower: lower, Upper: "u", Work: "w"})
	if err == nil || !strings.Contains(err.Error(), "too many layers") {
		t.Errorf("got %v", err)
	}
}
