package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/docker/internal/killer"
)

// endReady runs a script that does not end by itself, and ends it as a timeout does as soon as it
// prints "ready".
func endReady(t *testing.T, env environment.Environment, script string) error {
	t.Helper()
	ctx, end := context.WithCancelCause(t.Context())
	defer end(nil)
	out := readyWriter{end: func() { end(environment.ErrTimeout) }}
	code, err := env.Exec(ctx, script, environment.ExecOptions{Stdout: &out, Stderr: &out})
	if err == nil {
		t.Fatalf("the script ended with code %d:\n%s", code, &out)
	}
	return err
}

// readyWriter calls end when a line "ready" has been written.
type readyWriter struct {
	bytes.Buffer
	end func()
}

func (w *readyWriter) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if strings.Contains(w.String(), "ready\n") {
		w.end()
	}
	return n, err
}

// timesOut runs a script that does not end by itself, with a timeout.
func timesOut(t *testing.T, env environment.Environment, script string, timeout time.Duration) error {
	t.Helper()
	var out bytes.Buffer
	code, err := env.Exec(t.Context(), script, environment.ExecOptions{Timeout: timeout, Stdout: &out, Stderr: &out})
	if err == nil {
		t.Fatalf("the script ended with code %d:\n%s", code, &out)
	}
	return err
}

func TestTimeoutWithoutFreeProcessIDs(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	env := newEnvironment(t, p, environment.CreateOptions{Limits: environment.Limits{Pids: 40}})
	// bash gives up when it cannot fork for fifteen seconds: the script itself does not fork after
	// the loop has begun.
	err := endReady(t, env, "(for i in {1..200}; do sleep 600 & [ $i != 33 ] || echo ready; done) & exec sleep 600")
	if !errors.Is(err, environment.ErrTimeout) {
		t.Fatalf("error %v, want %v", err, environment.ErrTimeout)
	}
	if got := run(t, env, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"); strings.Contains(got, "sleep 600") {
		t.Errorf("still there: %s", got)
	}
	state, err := p.api.ContainerInspect(t.Context(), env.ID())
	if err != nil || *state.HostConfig.PidsLimit != 40 {
		t.Errorf("the limit was not set back: %d, %v", *state.HostConfig.PidsLimit, err)
	}
}

func TestTimeoutOfForkBomb(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	env := newEnvironment(t, p, environment.CreateOptions{Limits: environment.Limits{Pids: 100, MilliCPUs: 1000}})
	err := timesOut(t, env, "bomb() { bomb | bomb & }; bomb; sleep 600", 2*time.Second)
	switch {
	case environment.KindOf(err) == environment.KindLost:
		t.Logf("the container was killed: %v", err)
	case !errors.Is(err, environment.ErrTimeout):
		t.Errorf("error %v", err)
	default:
		if got := run(t, env, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"); strings.Contains(got, "bomb") {
			t.Errorf("still there: %s", got)
		}
	}
}

// Nothing of the container's is needed, nor run.
func TestTimeoutAfterBashIsGone(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	env := newEnvironment(t, p, environment.CreateOptions{})
	err := endReady(t, env, "rm -f /bin/bash /usr/bin/bash; sleep 600 & echo ready; sleep 600")
	if !errors.Is(err, environment.ErrTimeout) {
		t.Errorf("error %v, want %v", err, environment.ErrTimeout)
	}
	if top, err := p.api.ContainerTop(t.Context(), env.ID(), nil); err != nil || len(top.Processes) != 1 {
		t.Errorf("not the first process alone: %q, %v", top.Processes, err)
	}
}

func TestTimeoutAfterWorkDirIsGone(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	ref := buildImage(t, p, map[string]string{"Dockerfile": "FROM " + testImage + "\nWORKDIR /app\n"})
	env := newEnvironment(t, p, environment.CreateOptions{Image: ref})
	if err := endReady(t, env, "rmdir /app; setsid sleep 600 & echo ready; sleep 600"); !errors.Is(err, environment.ErrTimeout) {
		t.Errorf("error %v, want %v", err, environment.ErrTimeout)
	}
	if _, err := env.Exec(t.Context(), "true", environment.ExecOptions{}); environment.KindOf(err) != environment.KindExec {
		t.Errorf("a command without its directory: %v", err)
	}
	var out bytes.Buffer
	if _, err := env.Exec(t.Context(), "cat /proc/[0-9]*/cmdline | tr '\\0' ' '", environment.ExecOptions{WorkDir: "/", Stdout: &out}); err != nil || strings.Contains(out.String(), "sleep 600") {
		t.Errorf("still there: %s (%v)", &out, err)
	}
}

// A user may be looking into the environment.
func TestTimeoutSparesCommandsOfOthers(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	env := newEnvironment(t, p, environment.CreateOptions{})
	var out bytes.Buffer
	other := make(chan error, 1)
	go func() {
		for { // the debugger comes when the command runs
			if code, _ := p.container(env).Exec(t.Context(), "test -e /tmp/began", environment.ExecOptions{}); code == 0 {
				break
			}
		}
		_, err := p.container(env).Exec(t.Context(), "touch /tmp/looking; (until [ -e /tmp/go ]; do sleep 0.05; done; echo child) & wait; echo looked", environment.ExecOptions{Stdout: &out})
		other <- err
	}()
	err := endReady(t, env, "touch /tmp/began; until [ -e /tmp/looking ]; do sleep 0.05; done; echo ready; sleep 600")
	if !errors.Is(err, environment.ErrTimeout) {
		t.Error(err)
	}
	run(t, env, "touch /tmp/go")
	if err := <-other; err != nil || out.String() != "child\nlooked\n" {
		t.Errorf("the other command: %v, %q", err, &out)
	}
}

// container returns another handle for an environment.
func (p *Provider) container(env environment.Environment) *containerEnv {
	return &containerEnv{p: p, id: env.ID(), image: testImage}
}

// A process whose first thread has ended looks dead but is not.
func TestTimeoutKillsThreadsOfZombies(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	env := newEnvironment(t, p, environment.CreateOptions{Files: []environment.Copy{{Dst: "/k", Src: fstest.MapFS{"zombie.py": {
		Mode: 0o644,
		Data: []byte(`import ctypes, threading, time
def tick():
    while True:
        with open("/tmp/ticks", "a") as f: f.write("x")
        time.sleep(0.01)
threading.Thread(target=tick).start()
ctypes.CDLL(None).pthread_exit(None)
`)}}}}})
	if code, _ := env.Exec(t.Context(), "python3 -c 'import ctypes'", environment.ExecOptions{}); code != 0 {
		t.Skip("needs python3 in the image")
	}
	err := endReady(t, env, "setsid python3 /k/zombie.py & until [ -s /tmp/ticks ]; do sleep 0.05; done; echo ready; sleep 600")
	if !errors.Is(err, environment.ErrTimeout) {
		t.Fatal(err)
	}
	if got := run(t, env, "a=$(wc -c </tmp/ticks); sleep 0.5; b=$(wc -c </tmp/ticks); echo $((a > 0)) $((b - a))"); got != "1 0\n" {
		t.Errorf("ticks before, and since: %s", got)
	}
}

// A process that PID 1 starts is not taken for an orphan of the command, because it is in PID 1's
// session.
func TestTimeoutSparesChildrenOfTheEntrypoint(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	ref := buildImage(t, p, map[string]string{
		"Dockerfile": "FROM " + testImage + "\nCOPY entry.sh /entry.sh\nENTRYPOINT [\"bash\", \"/entry.sh\"]\n",
		"entry.sh":   "until [ -e /order ]; do sleep 0.02; done\nsleep 600 & echo $! > /child\nwhile :; do wait; sleep 1; done\n",
	})
	env := newEnvironment(t, p, environment.CreateOptions{Image: ref})
	err := endReady(t, env, "touch /order; until [ -s /child ]; do sleep 0.02; done; setsid sleep 600 & echo ready; sleep 600")
	if !errors.Is(err, environment.ErrTimeout) {
		t.Fatal(err)
	}
	got := run(t, env, `for p in /proc/[0-9]*; do [[ $(tr '\0' + <$p/cmdline) == sleep+600+ ]] && echo ${p#/proc/}; done 2>/dev/null; cat /child`)
	if sleeping := strings.Fields(got); len(sleeping) != 2 || sleeping[0] != sleeping[1] {
		t.Errorf("alive, and then to be spared: %q", sleeping)
	}
}

// A command's first process has its parent outside of the container, like every process that was
// not started from inside. It can make others like it.
func TestTimeoutKillsSiblingsOfTheCommand(t *testing.T) {
	t.Parallel()
	const cloneParent, sigchld = 0x8000, 17
	clone := map[string]int{"amd64": 56, "arm64": 220}[runtime.GOARCH]
	p := newProvider(t, nil)
	env := newEnvironment(t, p, environment.CreateOptions{})
	err := endReady(t, env, fmt.Sprintf(`exec perl -e '
		if (syscall(%d, %d, 0, 0, 0, 0) == 0) { exec "setsid", "bash", "-c", "while :; do echo \$PPID >> /ticks; sleep 0.01; done" }
		$| = 1; select(undef, undef, undef, 0.05) until -s "/ticks"; print "ready\n"; sleep 600'`, clone, cloneParent|sigchld))
	if !errors.Is(err, environment.ErrTimeout) {
		t.Fatal(err)
	}
	got := run(t, env, "head -n 1 /ticks; a=$(wc -l </ticks); sleep 0.5; b=$(wc -l </ticks); echo $((b - a))")
	if got != "0\n0\n" {
		t.Errorf("the parent of the sibling, and how often it ticked since: %q", got)
	}
}

// Programs that the first process runs count as older than the command. So it must run none that a
// command could have replaced.
func TestTheFirstProcessRunsNoProgram(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	env := newEnvironment(t, p, environment.CreateOptions{})
	err := endReady(t, env, `
		for tool in sleep cat true; do printf '#!/bin/dash\nwhile :; do echo x >> /ticks; done\n' > /bin/$tool; done
		for p in /proc/[0-9]*; do [ ${p#/proc/} = $$ ] || kill -9 ${p#/proc/}; done; : > /ticks; echo ready; while :; do :; done`)
	if !errors.Is(err, environment.ErrTimeout) {
		t.Fatal(err)
	}
	if got := run(t, env, "wc -c </ticks; echo /proc/[0-9]*"); got != "0\n/proc/1 /proc/"+strings.TrimPrefix(got, "0\n/proc/1 /proc/") || strings.Count(got, "/proc/") != 2 {
		t.Errorf("ticks and processes: %q", got)
	}
}

// killersOf returns the containers of this process's killers.
func killersOf(t *testing.T, p *Provider) []string {
	t.Helper()
	listed, err := p.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, l := range listed {
		if l.Labels.Job == killerJob && l.Labels.Owner == environment.Self() {
			ids = append(ids, l.ID)
		}
	}
	return ids
}

// One killer does for all containers. If it is gone, another takes over, and none is left.
func TestKillerIsSharedAndReplaced(t *testing.T) {
	direct := newProvider(t, nil)
	p, err := New(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	one, two := newEnvironmentOf(t, p, direct), newEnvironmentOf(t, p, direct)
	if n := len(killersOf(t, direct)); n != 0 {
		t.Fatalf("%d killers before there is anything to kill", n)
	}
	var both sync.WaitGroup
	for _, env := range []environment.Environment{one, two} {
		both.Go(func() {
			if _, err := env.Exec(t.Context(), "sleep 600", environment.ExecOptions{Timeout: 100 * time.Millisecond}); !errors.Is(err, environment.ErrTimeout) {
				t.Error(err)
			}
		})
	}
	both.Wait()
	killers := killersOf(t, direct)
	if len(killers) != 1 {
		t.Fatalf("%d killers, want 1", len(killers))
	}
	if got := run(t, one, "echo /proc/[0-9]*"); strings.Count(got, "/proc/") != 2 {
		t.Errorf("processes in the container: %s", got)
	}
	if err := direct.Remove(t.Context(), killers[0]); err != nil {
		t.Fatal(err)
	}
	if err := timesOut(t, two, "sleep 600", 100*time.Millisecond); !errors.Is(err, environment.ErrTimeout) {
		t.Error(err)
	}
	if again := killersOf(t, direct); len(again) != 1 || again[0] == killers[0] {
		t.Errorf("killers: %v, and before %v", again, killers)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if left := killersOf(t, direct); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A killer ends with the process that it works for, even if that is killed.
func TestKillersEndWithTheirInput(t *testing.T) {
	direct := newProvider(t, nil)
	p := newProvider(t, nil)
	env := newEnvironmentOf(t, p, direct)
	if err := timesOut(t, env, "sleep 600", 100*time.Millisecond); !errors.Is(err, environment.ErrTimeout) {
		t.Fatal(err)
	}
	p.killers.now.conn.Close() // as the kernel does for a process that was killed
	for end := time.Now().Add(time.Minute); len(killersOf(t, direct)) > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("left: %v", killersOf(t, direct))
		}
	}
}

// Without a container of their own, processes are not killed one by one.
func TestKillerRefusesProcessesOutsideContainers(t *testing.T) {
	p := newProvider(t, nil)
	k, err := p.startKiller(t.Context(), testImage)
	if err != nil {
		t.Fatal(err)
	}
	defer k.end(t.Context())
	for _, first := range []int{1, 0, -1, 1 << 22} { // the engine's own first process is in no container
		if _, err := k.ask(t.Context(), killer.Request{Op: killer.Kill, First: first, Root: first, Seconds: 1}); err == nil {
			t.Errorf("process %d was taken for a container's first", first)
		}
	}
}
