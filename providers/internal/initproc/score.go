//go:build linux

package initproc

import (
	"bytes"
	"os"
	"time"
)

const (
	// scoreFile says how soon the kernel ends this process for lack of memory. Root in the
	// environment may write it.
	scoreFile  = "/proc/self/oom_score_adj"
	scoreEvery = 200 * time.Millisecond
)

// holdScore makes this process's score the lowest that it and its children can have, if it has
// CAP_SYS_RESOURCE on the machine: the kernel remembers what such a process has written. Without
// it, that is what Rollout's starter has made the lowest. From then on this process's score is
// written again after each change. Source: proc(5), the kernel's fs/proc/base.c.
func holdScore() {
	first, err := os.ReadFile(scoreFile)
	if err != nil {
		return
	}
	write := func() { _ = os.WriteFile(scoreFile, first, 0o644) } // #nosec G306 -- it exists; the next attempt comes
	write()
	go func() {
		for range time.Tick(scoreEvery) { // as long as this process lives
			if now, err := os.ReadFile(scoreFile); err == nil && !bytes.Equal(now, first) {
				write()
			}
		}
	}()
}
