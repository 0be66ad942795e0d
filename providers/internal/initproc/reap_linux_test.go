package initproc

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/test/testprogram"
)

// A process that has ended keeps its id until WithoutReaping returns.
func TestNothingIsReapedInWithoutReaping(t *testing.T) {
	c := &children{running: map[int]*command{}}
	pid, reaped := 0, make(chan struct{})
	WithoutReaping(func() {
		var err error
		if pid, err = syscall.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{}); err != nil {
			t.Fatal(err)
		}
		for !isZombie(t, pid) {
			time.Sleep(time.Millisecond)
		}
		began := make(chan struct{})
		go func() {
			close(began)
			c.reap()
			close(reaped)
		}()
		<-began
		for range 1000 {
			if runtime.Gosched(); !isZombie(t, pid) {
				t.Fatal("the process was reaped")
			}
		}
	})
	<-reaped
	if err := unix.Kill(pid, 0); !errors.Is(err, unix.ESRCH) {
		t.Errorf("afterwards, it was not reaped: %v", err)
	}
}

func isZombie(t *testing.T, pid int) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(text), ") Z ")
}

// A program that is still open for writing, as in a process that was forked meanwhile, is executed
// when that is over.
func TestProgramsThatWereJustWrittenAreExecuted(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	testprogram.Write(t, program, "#!/bin/sh\n")
	open, err := os.OpenFile(program, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	pid, tries := 0, 0
	err = retryBusy(func() (err error) {
		if tries++; tries == 3 {
			_ = open.Close()
		}
		pid, err = syscall.ForkExec(program, []string{"program"}, &syscall.ProcAttr{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Wait4(pid, nil, 0, nil); err != nil {
		t.Error(err)
	}
}
