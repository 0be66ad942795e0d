//go:build linux && race

package sandbox

import (
	"cmp"
	"os"
)

// guestProgram returns the file of the program that runs in sandboxes. Tests with the race detector
// may name another one, of the same sources and without the detector: it starts three times as
// fast.
func guestProgram() string { return cmp.Or(os.Getenv("ROLLOUT_TEST_SANDBOX_INIT"), self) }
