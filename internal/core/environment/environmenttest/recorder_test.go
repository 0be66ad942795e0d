package environmenttest

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/environment/environmenttest/suite"
)

// recorder is a test that may fail: it records failures and skips. Other methods are those of the
// real test.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	problems []string
	skipped  string // why; "" if it was not
	cleanups []func()
}

func (r *recorder) Helper()      {}
func (r *recorder) Name() string { return r.TB.Name() }

func (r *recorder) Cleanup(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, do)
}

// TempDir returns a directory that is removed with the test. Processes that a broken provider left
// running may still write there.
func (r *recorder) TempDir() string {
	dir, err := os.MkdirTemp("", "recorder")
	if err != nil {
		r.Fatal(err)
	}
	r.TB.Cleanup(func() {
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) { // polls
			err := os.RemoveAll(dir)
			if err == nil {
				return
			}
			if time.Now().After(deadline) {
				r.TB.Logf("a directory is left: %v", err)
				return
			}
		}
	})
	return dir
}

func (r *recorder) note(problem string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problems = append(r.problems, problem)
}

func (r *recorder) Error(args ...any)                 { r.note(fmt.Sprint(args...)) }
func (r *recorder) Errorf(format string, args ...any) { r.note(fmt.Sprintf(format, args...)) }
func (r *recorder) Fatal(args ...any)                 { r.Error(args...); runtime.Goexit() }
func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...); runtime.Goexit() }
func (r *recorder) Skip(args ...any)                  { r.skip(fmt.Sprint(args...)) }
func (r *recorder) Skipf(format string, args ...any)  { r.skip(fmt.Sprintf(format, args...)) }

func (r *recorder) skip(reason string) {
	r.mu.Lock()
	r.skipped = reason
	r.mu.Unlock()
	runtime.Goexit()
}

// record runs a check and returns its results.
func record(t *testing.T, opts Options, c suite.Check) *recorder {
	r := &recorder{TB: t}
	do := func(f func()) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			f()
		}()
		<-done
	}
	do(func() { runCheck(r, opts, c) })
	for len(r.cleanups) > 0 {
		last := r.cleanups[len(r.cleanups)-1]
		r.cleanups = r.cleanups[:len(r.cleanups)-1]
		do(last)
	}
	return r
}

// failed reports whether the check failed, and why.
func (r *recorder) failed() (bool, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.problems) > 0, strings.Join(slices.Clone(r.problems), "; ")
}
