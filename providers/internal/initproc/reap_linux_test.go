package initproc

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
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
