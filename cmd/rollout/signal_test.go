//go:build linux

package main

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/org/rollout-action/internal/test/testenv"
)

func TestSignalsWithinASecondCountOnce(t *testing.T) {
	for _, test := range []struct {
		name    string
		after   []time.Duration // the first signal
		aborted bool
	}{
		{"one signal", nil, false},
		{"two at once", []time.Duration{0}, false},
		{"four within a second", []time.Duration{0, time.Millisecond, 999 * time.Millisecond}, false},
		{"a second one a second later", []time.Duration{time.Second}, true},
		{"two at once, and one later", []time.Duration{0, 3 * time.Second}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				signals := make(chan os.Signal, 16)
				cancelled, aborted := false, false
				go obey(signals, func() { cancelled = true }, func() { aborted = true })
				signals <- os.Interrupt
				begin := time.Now()
				for _, after := range test.after {
					time.Sleep(after - time.Since(begin))
					signals <- syscall.SIGTERM
				}
				synctest.Wait()
				if !cancelled || aborted != test.aborted {
					t.Errorf("cancelled %v, aborted %v", cancelled, aborted)
				}
				close(signals)
			})
		})
	}
}

// TestTimeoutCommandSignalsCountOnce: coreutils' timeout signals its child and then the child's
// group. It does so on SIGALRM when its own time is over, so the test sends that.
func TestTimeoutCommandSignalsCountOnce(t *testing.T) {
	timeout, err := exec.LookPath("timeout")
	if err != nil {
		testenv.Lacks(t, "docker", "timeout of coreutils")
	}
	sideBySide(t, realProviders, func(t *testing.T, provider string) {
		for range 5 {
			j := hangingJob(t, provider, 3)
			r := startWith(t, j.dir, timeout, "3600", binary, "job.yaml")
			j.waitRunning(t, 3)
			must(t, r.cmd.Process.Signal(syscall.SIGALRM))
			if code := r.exit(t); code != 124 {
				t.Errorf("timeout ended with %d", code)
			}
			j.wantLeft(t, 0, "after timeout has ended rollout")
			if res := j.result(t); !res.Cancelled {
				t.Errorf("result.json says %+v", res.Summary)
			}
		}
	})
}
