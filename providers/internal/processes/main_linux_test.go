package processes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The test binary runs itself: as the first process of a pid namespace, and as a program in it.
const roleVariable = "PROCESSES_TEST_ROLE"

func TestMain(m *testing.M) {
	name := os.Getenv(roleVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	if name == headless {
		loseTheFirstThread()
	}
	s := &scene{dir: os.Args[1]}
	if err := s.begin(name != foreignProc); err != nil {
		s.fail("begin: %v", err)
	}
	if scene := scenes()[name]; scene != nil {
		scene(s)
	} else {
		fromOutside()[name](s)
	}
	if s.failed {
		os.Exit(1)
	}
	os.Exit(0)
}

// inNamespace carries out a scene in a new pid namespace; everything in it ends with it.
func inNamespace(t *testing.T, name string) {
	t.Helper()
	inNamespaceWith(t, name, func(int, string) {})
}

// inNamespaceWith runs a function along with the scene, with the id of its first process and its
// directory.
func inNamespaceWith(t *testing.T, name string, beside func(first int, dir string)) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", dir)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "GORACE=atexit_sleep_ms=0", roleVariable + "=" + name}
	// Should the test run out of time, the namespace must not outlive it. That signal comes when
	// the thread ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Setsid: true, Pdeathsig: unix.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		beside(cmd.Process.Pid, dir)
	}()
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	<-done
}

// scene is the inside of a pid namespace, seen from its first process.
type scene struct {
	dir    string // for files
	mu     sync.Mutex
	failed bool
}

func (s *scene) begin(mount bool) error {
	if os.Getpid() != 1 {
		return fmt.Errorf("process %d, want 1", os.Getpid())
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	go func() {
		for range ended {
			s.reap()
		}
	}()
	if !mount {
		return nil
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	return unix.Mount("proc", "/proc", "proc", 0, "")
}

func (s *scene) reap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if !errors.Is(err, unix.EINTR) && (err != nil || pid <= 0) {
			return
		}
	}
}

func (s *scene) fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	s.failed = true
}

func (s *scene) must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// start runs a script as a command in a new session, with $d as the directory for files.
func (s *scene) start(script string) Process { return s.startIn(script, true) }

func (s *scene) startIn(script string, session bool) Process {
	s.mu.Lock() // no wait reaps it before its start is read
	defer s.mu.Unlock()
	pid, err := syscall.ForkExec("/bin/bash", []string{"bash", "-c", script}, &syscall.ProcAttr{
		Env:   append(os.Environ(), "d="+s.dir, roleVariable+"="),
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setsid: session},
	})
	s.must(err)
	start, err := Started(pid)
	s.must(err)
	return Process{PID: pid, Start: start}
}

// until waits for a file to have something in it.
func (s *scene) until(name string) string {
	for {
		content, err := os.ReadFile(filepath.Join(s.dir, name))
		if err == nil && len(content) > 0 {
			return string(content)
		}
		time.Sleep(time.Millisecond)
	}
}

// kill has to end within the time that a slow machine needs.
func (s *scene) kill(root Process, others ...Process) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := Kill(ctx, root, others...); err != nil {
		s.fail("Kill: %v", err)
	}
}

// wantAlive compares the command lines of what lives, but for process 1, with those named, sorted.
func (s *scene) wantAlive(want ...string) {
	if got := s.alive(); !slices.Equal(got, want) {
		s.fail("alive: %q, want %q", got, want)
	}
}

// untilAlive waits for processes to get as far as that.
func (s *scene) untilAlive(want ...string) {
	for !slices.Equal(s.alive(), want) {
		time.Sleep(time.Millisecond)
	}
}

func (s *scene) alive() []string {
	entries, err := os.ReadDir("/proc")
	s.must(err)
	var out []string
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == 1 {
			continue
		}
		cmdline, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		tasks, _ := os.ReadDir(filepath.Join("/proc", e.Name(), "task"))
		status, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "status"))
		if err != nil || bytes.Contains(status, []byte("\nState:\tZ")) && len(tasks) < 2 || len(status) == 0 {
			continue
		}
		out = append(out, strings.TrimSpace(strings.ReplaceAll(string(cmdline), "\x00", " ")))
	}
	slices.Sort(out)
	return out
}

const (
	headless    = "headless"
	foreignProc = "the /proc of another namespace"
)

// loseTheFirstThread leaves a process that looks dead, of which a thread lives on for ever.
func loseTheFirstThread() {
	runtime.LockOSThread() // init runs on the first thread, as does TestMain
	go func() {
		if err := os.WriteFile(os.Args[1]+"/began", []byte("x"), 0o666); err != nil {
			panic(err)
		}
		for {
			time.Sleep(time.Second)
		}
	}()
	_, _, _ = unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
}

func init() {
	runtime.LockOSThread() // so that TestMain is on the process's first thread
}
