//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// terminal is a rollout process on a terminal.
type terminal struct {
	cmd  *exec.Cmd
	keys *os.File
	gone chan struct{} // closed at the end of the output

	mu    sync.Mutex
	shown bytes.Buffer
}

// onTerminal starts rollout on a terminal of 100 columns and 30 rows.
func onTerminal(t *testing.T, dir string, args ...string) *terminal {
	t.Helper()
	r := &terminal{cmd: exec.Command(binary, args...), gone: make(chan struct{})}
	r.cmd.Dir = dir
	r.cmd.Env = append(os.Environ(), "TERM=vt100")
	var err error
	r.keys, err = pty.StartWithSize(r.cmd, &pty.Winsize{Cols: 100, Rows: 30})
	must(t, err)
	go func() {
		defer close(r.gone)
		buffer := make([]byte, 4096)
		for {
			n, err := r.keys.Read(buffer)
			r.mu.Lock()
			r.shown.Write(buffer[:n])
			r.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		if r.cmd.ProcessState == nil {
			_ = r.cmd.Process.Kill()
			_ = r.cmd.Wait()
		}
		r.keys.Close()
		if t.Failed() {
			t.Logf("shown:\n%s", r.text())
		}
	})
	return r
}

func (r *terminal) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shown.String()
}

// await waits until text is shown.
func (r *terminal) await(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !strings.Contains(r.text(), text); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%q was not shown", text)
		}
	}
}

func (r *terminal) write(t *testing.T, keys string) {
	t.Helper()
	_, err := r.keys.WriteString(keys)
	must(t, err)
}

// exit waits for the end and returns the exit code. It fails the test with rollout's goroutines if
// that takes over three minutes.
func (r *terminal) exit(t *testing.T) int {
	t.Helper()
	late := time.AfterFunc(3*time.Minute, func() { _ = r.cmd.Process.Signal(syscall.SIGQUIT) })
	_ = r.cmd.Wait() // the exit code says it
	<-r.gone
	if !late.Stop() {
		t.Fatal("rollout did not end")
	}
	return r.cmd.ProcessState.ExitCode()
}

// typeUntilExit types a command again and again until rollout ends, and returns its exit code. A
// terminal drops input typed just before it handles a Ctrl-C.
func (r *terminal) typeUntilExit(t *testing.T, command string) int {
	t.Helper()
	go func() {
		for {
			if _, err := r.keys.WriteString(command); err != nil {
				return
			}
			select {
			case <-r.gone:
				return
			case <-time.After(time.Second):
			}
		}
	}()
	return r.exit(t)
}

var shellPlace = regexp.MustCompile(`Here is a shell in (\w+)`)

// wantShellGone checks that the environment named in shown no longer exists.
func wantShellGone(t *testing.T, provider, shown string) {
	t.Helper()
	found := shellPlace.FindStringSubmatch(shown)
	if found == nil {
		t.Fatalf("no environment was named: %q", shown)
	}
	p, err := open(provider)
	must(t, err)
	defer p.Close()
	listed, err := p.List(context.Background())
	must(t, err)
	for _, l := range listed {
		if l.ID == found[1] {
			t.Errorf("the environment is left: %+v", l)
		}
	}
}

func TestShellOnATerminal(t *testing.T) {
	sideBySide(t, realProviders, func(t *testing.T, provider string) {
		j := hangingJob(t, provider, 3)
		r := onTerminal(t, j.dir, "shell", "job.yaml")
		r.await(t, "Here is a shell in ")
		r.write(t, "echo $TERM; tty; cat $ROLLOUT_TASK_INSTRUCTION; until stty size | grep '30 100'; do sleep 0.1; done\r")
		r.await(t, "vt100\r\n")
		r.await(t, "/dev/pts/0")
		r.await(t, "Wait.")
		r.await(t, "30 100\r\n")
		must(t, pty.Setsize(r.keys, &pty.Winsize{Cols: 120, Rows: 40}))
		r.write(t, "until stty size | grep '40 120'; do sleep 0.1; done\r")
		r.await(t, "40 120\r\n")
		// Ctrl-C is for the program in the shell, even when pressed twice. The program says that it
		// has started: a shell that gets the signal while it starts a program lets it run, and
		// waits for it after the next command.
		r.write(t, "sh -c \"echo sta''rted; exec sleep 3600\"\r")
		r.await(t, "started")
		for range 2 {
			r.write(t, "\x03")
		}
		// A terminal drops input that arrives just before it handles Ctrl-C.
		for i := 0; i < 300 && !strings.Contains(r.text(), "interrupted"); i++ {
			r.write(t, "echo in''terrupted\r")
			time.Sleep(200 * time.Millisecond)
			if i%5 == 4 {
				r.write(t, "\x03")
				time.Sleep(200 * time.Millisecond)
			}
		}
		r.await(t, "interrupted")
		if code := r.typeUntilExit(t, "exit 7\r"); code != 7 {
			t.Errorf("exit code %d, want the shell's", code)
		}
		wantShellGone(t, provider, r.text())
	})
}

func TestShellEndsWithASignal(t *testing.T) {
	sideBySide(t, realProviders, func(t *testing.T, provider string) {
		for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} { // a terminal that is closed sends SIGHUP
			t.Run(signal.String(), func(t *testing.T) {
				j := hangingJob(t, provider, 1)
				r := onTerminal(t, j.dir, "shell", "job.yaml")
				r.await(t, "Here is a shell in ")
				r.write(t, "echo sta''rted; setsid sleep 3600 & sleep 3600\r")
				r.await(t, "started")
				must(t, r.cmd.Process.Signal(signal))
				if code := r.exit(t); code != 130 {
					t.Errorf("exit code %d, want that of a cancel", code)
				}
				wantShellGone(t, provider, r.text())
			})
		}
	})
}

func TestShellCancelledWhileBuilding(t *testing.T) {
	sideBySide(t, realProviders, func(t *testing.T, provider string) {
		j := hangingJob(t, provider, 1)
		task := filepath.Join(j.dir, "evals/hang")
		must(t, os.WriteFile(filepath.Join(task, "task.toml"), []byte("version = \"1.0\"\n"), 0o644))
		must(t, os.Mkdir(filepath.Join(task, "environment"), 0o755))
		must(t, os.WriteFile(filepath.Join(task, "environment/Dockerfile"), []byte("FROM debian:bookworm\nRUN sleep "+j.mark+"\n"), 0o644))
		r := onTerminal(t, j.dir, "shell", "job.yaml")
		r.await(t, "RUN sleep")
		r.write(t, "\x03") // the terminal is not raw yet
		if code := r.exit(t); code != 130 {
			t.Errorf("exit code %d, want that of a cancel", code)
		}
	})
}

// TestShellEndsWithItsReader: as in "rollout shell … | head -1".
func TestShellEndsWithItsReader(t *testing.T) {
	sideBySide(t, realProviders, func(t *testing.T, provider string) {
		j := hangingJob(t, provider, 1)
		read, write, err := os.Pipe()
		must(t, err)
		cmd := exec.Command(binary, "shell", "job.yaml", "--agent", "nop", "--at", "setup", "--", "yes")
		var errs bytes.Buffer
		cmd.Dir, cmd.Stdout, cmd.Stderr = j.dir, write, &errs
		must(t, cmd.Start())
		must(t, write.Close())
		_, err = io.ReadFull(read, make([]byte, 2))
		must(t, errors.Join(err, read.Close()))
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 141 {
			t.Errorf("%v, stderr %q", err, errs.String())
		}
		wantShellGone(t, provider, errs.String())
	})
}

func TestShellWithoutATerminal(t *testing.T) {
	sideBySide(t, realProviders, func(t *testing.T, provider string) {
		j := hangingJob(t, provider, 1)
		cmd := exec.Command(binary, "shell", "job.yaml", "--agent", "nop", "--at", "setup")
		cmd.Dir, cmd.Stdin = j.dir, strings.NewReader("id -un; test -t 0 || echo no terminal; exit 130")
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != 130 || out.String() != "root\nno terminal\n" {
			t.Errorf("exit code %d (%v), stdout %q, stderr %q", code, err, out.String(), errs.String())
		}
		wantShellGone(t, provider, errs.String())
		cmd = exec.Command(binary, "shell", "job.yaml", "--user", "root", "--", "bash", "-c", `echo "$1 it's $2"; exit 9`, "x", "a b", "$HOME")
		cmd.Dir = j.dir
		got, err := cmd.Output()
		if code := cmd.ProcessState.ExitCode(); code != 9 || string(got) != "a b it's $HOME\n" {
			t.Errorf("exit code %d (%v), stdout %q", code, err, got)
		}
	})
}
