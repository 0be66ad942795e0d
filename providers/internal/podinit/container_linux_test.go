package podinit

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/internal/test/testprogram"
)

// container is a container whose process 1 is this test's program as a guest.
type container struct {
	id string
	// lasts, if not nil, returns after how many bytes the next connection breaks.
	lasts func() int64
	dials atomic.Int32
}

// startContainer starts a container without a network.
func startContainer(t *testing.T, args ...string) *container {
	t.Helper()
	testenv.NeedDocker(t)
	dir := t.TempDir()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(own)
	if err != nil {
		t.Fatal(err)
	}
	testprogram.Write(t, filepath.Join(dir, Installer), string(program))
	target := filepath.Join(dir, "installed")
	if err := os.Mkdir(target, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), filepath.Join(dir, Installer), target).CombinedOutput(); err != nil {
		t.Fatalf("install: %v: %s", err, out)
	}
	c := &container{id: "rollout-guest-test-" + strings.ToLower(rand.Text())}
	t.Cleanup(func() { _ = exec.Command("docker", "rm", "--force", c.id).Run() })
	args = append([]string{"run", "--detach", "--name", c.id, "--network", "none", "--volume", target + ":" + Dir + ":ro"}, args...)
	args = append(args, testenv.Image, Program)
	if out, err := exec.CommandContext(t.Context(), "docker", args...).CombinedOutput(); err != nil {
		t.Fatalf("docker run: %v: %s", err, out)
	}
	return c
}

// dial is the container's Dialer.
func (c *container) dial(context.Context) (io.ReadWriteCloser, error) {
	cmd := exec.Command("docker", "exec", "--interactive", c.id, Connector)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c.dials.Add(1)
	k := &carrier{Reader: out, WriteCloser: in, cmd: cmd}
	k.left.Store(math.MaxInt64)
	if c.lasts != nil {
		k.left.Store(c.lasts())
	}
	return k, nil
}

// carrier is a connection to a guest, which breaks after some bytes.
type carrier struct {
	io.Reader
	io.WriteCloser
	cmd  *exec.Cmd
	wait sync.Once // connections may be closed more than once
	left atomic.Int64
}

func (c *carrier) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if c.left.Add(-int64(n)) < 0 {
		_ = c.cmd.Process.Kill()
	}
	return n, err
}

func (c *carrier) Write(p []byte) (int, error) {
	if c.left.Add(-int64(len(p))) < 0 {
		_ = c.cmd.Process.Kill()
	}
	return c.WriteCloser.Write(p)
}

func (c *carrier) Close() error {
	_ = c.cmd.Process.Kill()
	err := c.WriteCloser.Close()
	go c.wait.Do(func() { _ = c.cmd.Wait() })
	return err
}

// explain says that the container has gone, if it has.
func (c *container) explain(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "docker", "inspect", "--format", "{{.State.Running}} {{.State.OOMKilled}}", c.id).CombinedOutput()
	if err == nil && strings.HasPrefix(string(out), "true") {
		return nil
	}
	return fmt.Errorf("the container has ended: %s", strings.TrimSpace(string(out)))
}

func (c *container) start(t *testing.T, opts Options) *Environment {
	t.Helper()
	opts.Explain = c.explain
	e, err := Start(t.Context(), c.dial, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// run runs a script that must succeed, and returns its output.
func run(t *testing.T, e *Environment, script string, opts environment.ExecOptions) string {
	t.Helper()
	var out, errs bytes.Buffer
	opts.Stdout, opts.Stderr = &out, &errs
	code, err := e.Exec(t.Context(), script, opts)
	if err != nil || code != 0 {
		t.Fatalf("%s: code %d, %v\n%s%s", script, code, err, out.String(), errs.String())
	}
	return out.String()
}

func TestEnvironmentInAContainer(t *testing.T) {
	t.Parallel()
	c := startContainer(t)
	e := c.start(t, Options{
		Image: Image{Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "A=image"}, WorkDir: "/made/here"},
		Env:   map[string]string{"B": "job"},
		Files: []environment.Copy{{Src: fstest.MapFS{"a/b.txt": {Data: []byte("hello"), Mode: 0o640}}, Dst: "/files"}},
	})
	if got := run(t, e, `pwd; echo "$A $B $C"; cat /files/a/b.txt; stat -c %a,%U /files/a/b.txt; cat`, environment.ExecOptions{
		Env: map[string]string{"C": "command"}, Stdin: strings.NewReader("typed"),
	}); got != "/made/here\nimage job command\nhello640,root\ntyped" {
		t.Errorf("got %q", got)
	}
	if got := run(t, e, "id -un; echo ~", environment.ExecOptions{User: "nobody", WorkDir: "/"}); got != "nobody\n/nonexistent\n" {
		t.Errorf("as another user: %q", got)
	}
	dst := t.TempDir()
	if _, err := e.CopyFrom(t.Context(), "/files", dst, environment.ExtractOptions{MaxBytes: 1 << 20, MaxFiles: 10}); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dst, "a/b.txt")); err != nil || string(got) != "hello" {
		t.Errorf("copied out: %q, %v", got, err)
	}
	if _, err := e.CopyFrom(t.Context(), "/nowhere", dst, environment.ExtractOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is not there: %v", err)
	}
}

// All that is under way when a connection breaks goes on with the next one.
func TestRequestsInProgressOutliveConnections(t *testing.T) {
	t.Parallel()
	c := startContainer(t)
	c.lasts = func() int64 { return 1<<20 + mathrand.Int64N(20<<20) } // #nosec G404 -- a test
	e := c.start(t, Options{})
	large := make([]byte, 64<<20)
	_, _ = rand.Read(large)
	if err := e.CopyTo(t.Context(), environment.Copy{Src: fstest.MapFS{"large": {Data: large, Mode: 0o644}}, Dst: "/files"}); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	code, err := e.Exec(t.Context(), `cat /files/large; cat | cksum >&2; for i in {1..20}; do sleep 0.05; echo tick >&2; done; exit 7`,
		environment.ExecOptions{Stdout: &out, Stdin: bytes.NewReader(large)})
	if err != nil || code != 7 || !bytes.Equal(out.Bytes(), large) {
		t.Errorf("code %d, %v, %d bytes", code, err, out.Len())
	}
	dst := t.TempDir()
	if _, err := e.CopyFrom(t.Context(), "/files", dst, environment.ExtractOptions{MaxBytes: 1 << 30, MaxFiles: 10}); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dst, "large")); err != nil || !bytes.Equal(got, large) {
		t.Errorf("copied out: %d bytes, %v", len(got), err)
	}
	_, err = e.Exec(t.Context(), "sleep 1000 & setsid sleep 1000", environment.ExecOptions{Timeout: time.Second})
	if !errors.Is(err, environment.ErrTimeout) {
		t.Errorf("a timeout: %v", err)
	}
	if n := c.dials.Load(); n < 10 {
		t.Errorf("%d connections were needed: they did not break", n)
	}
	if got := run(t, e, `for p in /proc/[0-9]*; do tr '\0' ' ' <$p/cmdline; echo; done | grep -c ^sleep || true`, environment.ExecOptions{}); got != "0\n" {
		t.Errorf("processes that live on: %s", got)
	}
}

// A process of the image that is root cannot look into the guest, end it, take its socket, or speak
// in place of the client.
func TestGuestResistsTheContainersRoot(t *testing.T) {
	t.Parallel()
	c := startContainer(t)
	e := c.start(t, Options{})
	got := run(t, e, `
		kill -9 1; kill -STOP 1; kill -TERM 1
		for f in environ mem maps root/etc/passwd fd/0 cwd/x; do cat /proc/1/$f >/dev/null 2>&1 && echo "reads $f"; done
		echo x 2>/dev/null >/.rollout/rollout-guest && echo writes
		rm -rf /.rollout/* 2>/dev/null; mv /.rollout /elsewhere 2>/dev/null && echo moves
		ls /.rollout
		python3 - <<'P'
import os, resource, socket
for n in ("NOFILE", "AS", "CPU", "FSIZE"):
    try:
        resource.prlimit(1, getattr(resource, "RLIMIT_" + n), (0, 0)); print("limits", n)
    except OSError: pass
for first in (b"\1", b"\0"):
    s = socket.socket(socket.AF_UNIX); s.connect("\0rollout-guest")
    try:
        s.sendall(b"rg\2\n" + first + b"x" * 32 + b"\0" * 8)
        print(len(s.recv(100)))
    except OSError: print(0)
try:
    socket.socket(socket.AF_UNIX).bind("\0rollout-guest"); print("binds")
except OSError: pass
P
		for p in /proc/[0-9]*; do case $(tr '\0' ' ' <$p/cmdline) in /.rollout/*connect*) kill -9 ${p#/proc/}; echo kills;; esac; done
		before=$(cat /proc/1/oom_score_adj); echo 1000 >/proc/1/oom_score_adj
		for i in {1..1000}; do sleep 0.1; [ $(cat /proc/1/oom_score_adj) = $before ] && break; done
		[ $(cat /proc/1/oom_score_adj) = $before ] || echo "is the first to end"
		echo end`, environment.ExecOptions{})
	if want := "rollout-guest\nrollout-guest-connect\nrollout-guest-fill\n0\n0\nkills\nend\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := run(t, e, "grep ^Gid: /proc/self/status; echo still here", environment.ExecOptions{}); got != "Gid:\t0\t0\t0\t0\nstill here\n" {
		t.Errorf("got %q", got)
	}
}

// endConnectors is a function in Python that ends the connectors of a container.
const endConnectors = `
import os, glob
def end_connectors():
    n = 0
    for p in glob.glob("/proc/[0-9]*"):
        try:
            if open(p + "/cmdline").read().startswith("/.rollout/rollout-guest-connect"): os.kill(int(p[6:]), 9); n += 1
        except OSError: pass
    return n
`

// Connections that say nothing do not keep the client out, whether processes of the container make
// them or others in its network.
func TestSilentConnectionsDoNotKeepTheClientOut(t *testing.T) {
	t.Parallel()
	hold := endConnectors + `
import select, socket, threading
def hold():
    while True:
        s = socket.socket(socket.AF_UNIX); s.connect("\0rollout-guest"); select.select([s], [], [])
for i in range(64): threading.Thread(target=hold, daemon=True).start()
`
	t.Run("from inside", func(t *testing.T) {
		t.Parallel()
		c := startContainer(t)
		e := c.start(t, Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var out bytes.Buffer
		code, err := e.Exec(ctx, "python3 - <<'P' >/tmp/ended &\n"+hold+`
assert end_connectors()
print("ended", flush=True)
while True: hold()
P
			until grep -q ended /tmp/ended; do sleep 0.01; done; echo goes on`, environment.ExecOptions{Stdout: &out})
		if err != nil || code != 0 || out.String() != "goes on\n" {
			t.Errorf("code %d, %v, %q", code, err, out.String())
		}
	})
	t.Run("from outside", func(t *testing.T) {
		t.Parallel()
		c := startContainer(t)
		e := c.start(t, Options{})
		outside := exec.CommandContext(t.Context(), "docker", "exec", "--interactive", c.id, "python3", "-c", endConnectors+`
import socket, sys
def connect():
    s = socket.socket(socket.AF_UNIX); s.connect("\0rollout-guest"); return s
for first in (b"\1", b"\0"):
    s = connect(); s.sendall(b"rg\1\n" + first + b"x" * 32 + b"\0" * 8)
    answer = s.recv(100); print(len(answer), answer[5:37] == b"\0" * 32)
many = [connect() for i in range(64)]
print(end_connectors(), flush=True)
sys.stdin.read()`)
		in, err := outside.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := outside.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := outside.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = errors.Join(in.Close(), outside.Wait()) }()
		want := []byte("45 False\n45 False\n1\n")
		got := make([]byte, len(want))
		if _, err := io.ReadFull(out, got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if code, err := e.Exec(ctx, "true", environment.ExecOptions{}); err != nil || code != 0 {
			t.Errorf("code %d, %v", code, err)
		}
	})
}

// A directory with so many long names that they would not fit into the container's memory.
func TestManyNamesDoNotEndTheGuest(t *testing.T) {
	t.Parallel()
	memory := "64m"
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		memory = "512m" // the race detector needs many times as much
	}
	c := startContainer(t, "--memory", memory)
	e := c.start(t, Options{})
	run(t, e, `python3 -c '
import os
os.mkdir("/many")
for i in range(200000): os.close(os.open(f"/many/{i:06}" + "x" * 240, os.O_CREAT))'`, environment.ExecOptions{})
	dst := t.TempDir()
	got, err := e.CopyFrom(t.Context(), "/many", dst, environment.ExtractOptions{MaxFiles: 1000})
	if !errors.Is(err, environment.ErrTooLarge) || got.Files != 1000 {
		t.Errorf("copied out: %d files, %v", got.Files, err)
	}
	for _, last := range e.Files(t.Context()) {
		err = last
	}
	if environment.KindOf(err) != environment.KindCopy || !strings.Contains(err.Error(), "/many/") {
		t.Errorf("listed: %v", err)
	}
	run(t, e, "true", environment.ExecOptions{})
}

// The guest has nothing left to serve when it cannot set the container up. It stays until the
// client has read why.
func TestTheReasonArrivesBeforeTheContainerEnds(t *testing.T) {
	t.Parallel()
	for range 5 {
		c := startContainer(t)
		_, err := Start(t.Context(), c.dial, Options{Image: Image{User: "no-such-user"}, Explain: c.explain})
		known := new(environment.Error)
		if !errors.As(err, &known) || known.Kind != environment.KindStart || !strings.Contains(err.Error(), "no-such-user") || !strings.Contains(known.Hint, "USER") {
			t.Errorf("got %v", err)
		}
	}
}

func TestEndOfTheEntrypointIsTheEnd(t *testing.T) {
	t.Parallel()
	c := startContainer(t)
	_, err := Start(t.Context(), c.dial, Options{Image: Image{Entrypoint: []string{"bash", "-c", "echo no configuration; exit 3"}}, Explain: c.explain})
	known := new(environment.Error)
	if !errors.As(err, &known) || known.Kind != environment.KindStart || !strings.Contains(known.Output, "no configuration") || !strings.Contains(err.Error(), "exit code 3") {
		t.Errorf("got %v", err)
	}
	c = startContainer(t)
	e := c.start(t, Options{Image: Image{Entrypoint: []string{"bash", "-c", `mkfifo /tmp/end; "$@" & read -r x </tmp/end; echo it was told to; exit 4`, "entry"}}})
	run(t, e, "true", environment.ExecOptions{})
	_, err = e.Exec(t.Context(), "sleep 1000 & echo end >/tmp/end; sleep 1000", environment.ExecOptions{})
	if !errors.As(err, &known) || known.Kind != environment.KindLost || !strings.Contains(known.Output, "it was told to") {
		t.Errorf("after a command: %v", err)
	}
	if err := e.CopyTo(t.Context(), environment.Copy{Src: fstest.MapFS{}, Dst: "/x"}); environment.KindOf(err) != environment.KindLost {
		t.Errorf("afterwards: %v", err)
	}
}

func TestContainerThatEndsIsExplained(t *testing.T) {
	t.Parallel()
	c := startContainer(t)
	e := c.start(t, Options{})
	ended := make(chan error, 1)
	go func() {
		_, err := e.Exec(t.Context(), "sleep 1000", environment.ExecOptions{})
		ended <- err
	}()
	if err := exec.CommandContext(t.Context(), "docker", "kill", c.id).Run(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; environment.KindOf(err) != environment.KindLost || !strings.Contains(err.Error(), "the container has ended") {
		t.Errorf("got %v", err)
	}
	if err := e.CopyTo(t.Context(), environment.Copy{Src: fstest.MapFS{}, Dst: "/x"}); environment.KindOf(err) != environment.KindLost {
		t.Errorf("afterwards: %v", err)
	}
}

func TestConnectionsToLoopback(t *testing.T) {
	t.Parallel()
	c := startContainer(t)
	e := c.start(t, Options{})
	l, err := e.ListenLoopback(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				line := make([]byte, 5)
				if _, err := io.ReadFull(conn, line); err == nil {
					fmt.Fprintf(conn, "you say %s\n", line)
				}
			}()
		}
	}()
	host, port, _ := strings.Cut(l.Addr().String(), ":")
	say := fmt.Sprintf(`exec 7<>/dev/tcp/%s/%s; printf hello >&7; cat <&7`, host, port)
	if got := run(t, e, say, environment.ExecOptions{}); got != "you say hello\n" {
		t.Errorf("got %q", got)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if code, err := e.Exec(t.Context(), say, environment.ExecOptions{}); err != nil || code == 0 {
		t.Errorf("a closed listener is there: %d, %v", code, err)
	}
	if reached, err := e.Reaches(t.Context(), l.Addr().String()); err != nil || reached {
		t.Errorf("reaches a closed listener: %v, %v", reached, err)
	}
}

func TestSocketsThatAreOpen(t *testing.T) {
	const rest = "00000000:00000000 00:00000000 00000000     0        0 "
	for name, tc := range map[string]struct {
		list, line string
		want       string // "": it is none
	}{
		"an open connection":                 {"tcp", "   1: 7B00F40A:A5F2 8A00F40A:1F90 01 " + rest + "87521 1 0000000000000000 20 4 30 10 -1", "a connection (tcp) to 10.244.0.138:8080"},
		"one that the other side has closed": {"tcp", "   1: 7B00F40A:A5F2 8A00F40A:1F90 08 " + rest + "87521 1 0000000000000000 20 4 30 10 -1", "a connection (tcp) to 10.244.0.138:8080"},
		"one that nobody has accepted yet":   {"tcp", "   1: 7B00F40A:A5F2 8A00F40A:1F90 02 " + rest + "87521 1 0000000000000000 20 4 30 10 -1", ""},
		"one that its process has closed":    {"tcp", "   1: 7B00F40A:A5F2 8A00F40A:1F90 09 " + rest + "0 1 0000000000000000 20 4 30 10 -1", ""},
		"one over loopback":                  {"tcp", "   1: 0100007F:A5F2 0100007F:1F90 01 " + rest + "87521 1 0000000000000000 20 4 30 10 -1", ""},
		"a listener":                         {"tcp", "   0: 00000000:1F90 00000000:0000 0A " + rest + "87520 1 0000000000000000 100 0 0 10 0", ""},
		"a UDP socket with a remote address": {"udp", "  213: 7B00F40A:A5F2 8A00F40A:0035 01 " + rest + "87521 2 0000000000000000 0", "a connection (udp) to 10.244.0.138:53"},
		"a UDP socket without one":           {"udp", "  213: 00000000:1F90 00000000:0000 07 " + rest + "87521 2 0000000000000000 0", ""},
		"a raw socket":                       {"raw", "    1: 00000000:0001 00000000:0000 07 " + rest + "87521 2 0000000000000000 0", "a raw socket"},
		"a packet socket":                    {"packet", "0000000000000000 3      3    0003   2     1 0      0      87521", "a packet socket"},
		"the heading":                        {"raw", "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops", ""},
		"the heading of packet sockets":      {"packet", "sk               RefCnt Type Proto  Iface R Rmem   User   Inode", ""},
	} {
		got, open := openSocket(tc.list, tc.line)
		if open != (tc.want != "") || got != tc.want {
			t.Errorf("%s: %q, open %t, want %q", name, got, open, tc.want)
		}
	}
}

func TestConnectionsOfAContainer(t *testing.T) {
	t.Parallel()
	c := startContainer(t)
	e := c.start(t, Options{})
	if got, err := e.Connections(t.Context()); err != nil || len(got) > 0 {
		t.Errorf("nothing runs, but there are %q, %v", got, err)
	}
	run(t, e, `python3 - <<'P' >/tmp/began &
import socket, time
kept = [socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP), socket.socket(socket.AF_PACKET, socket.SOCK_RAW)]
for to in ("127.0.0.1", None):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); kept.append(s)
    if to: s.connect((to, 53))
    else: s.bind(("0.0.0.0", 5353))
print("began", flush=True)
time.sleep(1000)
P
		until grep -q began /tmp/began; do sleep 0.01; done`, environment.ExecOptions{})
	got, err := e.Connections(t.Context())
	if want := []string{"a packet socket", "a raw socket"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// The limit of the container is visible in it.
func TestProcessesThatFillTheLimitOfAContainer(t *testing.T) {
	t.Parallel()
	const fill = `perl -e 'for (1..%d) { my $child = fork; if (!defined $child) { last } if (!$child) { sleep 3600; exit } }
	open(my $done, ">", "/tmp/done"); sleep 3600' >/dev/null 2>&1 &
until [ -e /tmp/done ]; do read -rt 0.1 <&1; done
true`
	for name, tc := range map[string]struct {
		processes int
		crowded   bool
	}{"some": {60, false}, "as many as possible": {1000, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := startContainer(t, "--pids-limit", "150").start(t, Options{})
			if n, limit := e.Processes(t.Context()); n > 50 || limit != 150 && limit != 0 {
				t.Errorf("before: %d of %d", n, limit)
			}
			run(t, e, fmt.Sprintf(fill, tc.processes), environment.ExecOptions{})
			for range 100 { // each time is like the first one
				n, limit := e.Processes(t.Context())
				if tc.crowded && (n < 100 || limit > 160) || n > limit {
					t.Fatalf("%d of %d", n, limit)
				}
			}
			if environment.Crowded(t.Context(), processReporter{Of: e}) != tc.crowded {
				t.Errorf("crowded: %t", !tc.crowded)
			}
			if err := e.KillAll(t.Context()); err != nil {
				t.Fatal(err)
			}
			run(t, e, "echo free", environment.ExecOptions{})
			if n, limit := e.Processes(t.Context()); n > 50 {
				t.Errorf("afterwards: %d of %d", n, limit)
			}
		})
	}
}

// processReporter is an environment that counts its processes.
type processReporter struct {
	environment.Environment
	Of *Environment
}

func (p processReporter) Processes(ctx context.Context) (n, limit int64) { return p.Of.Processes(ctx) }
