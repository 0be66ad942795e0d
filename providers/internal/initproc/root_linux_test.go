package initproc

import (
	"slices"
	"strings"
	"testing"

	"github.com/org/rollout-action/providers/internal/initwire"
)

// TestTooManyLayersAreRefused: the kernel cuts options that are longer than a page silently, and
// mounts the rest.
func TestTooManyLayersAreRefused(t *testing.T) {
	lower := slices.Repeat([]string{"l/0123456789abcdef01234567/root"}, 200)
	err := mountOverlay(initwire.Setup{Root: t.TempDir()}, initwire.Mount{At: "/", Lower: lower, Upper: "u", Work: "w"})
	if err == nil || !strings.Contains(err.Error(), "too many layers") {
		t.Errorf("got %v", err)
	}
}
