package cgroup

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/test/testenv"
)

// behaviour selects what this program does as the child of a test.
const behaviour = "CGROUP_TEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(behaviour) {
	case "":
		os.Exit(m.Run())
	case "take 200 MiB":
		waitForLine()
		data := bytes.Repeat([]byte{1}, 200<<20)
		fmt.Println("survived with", len(data))
	case "burn":
		waitForLine()
		for { // until it is killed
			runtime.Gosched()
		}
	}
}

// waitForLine returns when the test has put this process into its group.
func waitForLine() { _, _ = os.Stdin.Read(make([]byte, 1)) }

// realTree returns this machine's groups. They are removed at the end of the test.
func realTree(t testing.TB) *Tree {
	t.Helper()
	testenv.NeedRoot(t, "to make cgroups")
	tree, err := Open(fmt.Sprintf("rollout-test-%d", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	if missing := tree.Missing(); len(missing) > 0 {
		testenv.Lacks(t, "sandbox", fmt.Sprintf("cgroups for all limits: %v", missing))
	}
	t.Cleanup(func() {
		for _, base := range tree.bases() {
			if _, err := os.Stat(filepath.Join(base, tree.top)); !os.IsNotExist(err) {
				t.Errorf("the top group in %s is still there: %v", base, err)
			}
		}
		// A test that fails leaves nothing on the machine either.
		if err := tree.Sweep(func(string) bool { return false }); err != nil {
			t.Error(err)
		}
	})
	return tree
}

// child is a waiting process in a group.
type child struct {
	*exec.Cmd
	stdin  io.Writer
	stdout strings.Builder
}

// start starts cmd and puts it into a group with limits. At the end of the test its processes are
// killed, and the group is removed.
func start(t *testing.T, tree *Tree, l Limits, cmd *exec.Cmd) (*Group, *child) {
	t.Helper()
	runtime.LockOSThread() // the child dies with the thread that started it
	g, unenforced, err := tree.New("a", l)
	if err != nil || len(unenforced) > 0 {
		t.Fatalf("unenforced %v, %v", unenforced, err)
	}
	c := &child{Cmd: cmd}
	t.Cleanup(func() {
		if c.Process != nil {
			_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
			_ = c.Wait()
		}
		if err := g.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	c.Stdout = &c.stdout
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if c.stdin, err = c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if err := g.Add(c.Process.Pid); err != nil {
		t.Fatal(err)
	}
	return g, c
}

func self(t *testing.T, does string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), behaviour+"="+does)
	return cmd
}

func (c *child) goOn(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(c.stdin, "\n"); err != nil {
		t.Fatal(err)
	}
}

func TestMemoryIsLimited(t *testing.T) {
	g, c := start(t, realTree(t), Limits{Memory: 64 << 20}, self(t, "take 200 MiB"))
	c.goOn(t)
	_ = c.Wait()
	if status := c.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Errorf("%v, %q; want it killed", c.ProcessState, &c.stdout)
	}
	if kills, err := g.OOMKills(); kills < 1 || err != nil {
		t.Errorf("%d kills, %v", kills, err)
	}
}

func TestMemoryBelowTheLimitIsGranted(t *testing.T) {
	g, c := start(t, realTree(t), Limits{Memory: 2 << 30}, self(t, "take 200 MiB"))
	c.goOn(t)
	if err := c.Wait(); err != nil || !strings.Contains(c.stdout.String(), "survived") {
		t.Errorf("%v, %q", err, &c.stdout)
	}
	if kills, err := g.OOMKills(); kills != 0 || err != nil {
		t.Errorf("%d kills, %v", kills, err)
	}
}

func TestPidsAreLimited(t *testing.T) {
	const script = `read line; i=1; while [ $i -le 50 ]; do sleep 600 >/dev/null & echo $i; i=$((i+1)); done; echo all`
	_, c := start(t, realTree(t), Limits{Pids: 20}, exec.CommandContext(t.Context(), "sh", "-c", script))
	c.goOn(t)
	_ = c.Wait()
	// The shell is one of the twenty.
	if lines := strings.Fields(c.stdout.String()); len(lines) != 19 || lines[18] != "19" {
		t.Errorf("started %v, want 19", lines)
	}
}

func TestProcessorTimeIsLimited(t *testing.T) {
	g, c := start(t, realTree(t), Limits{MilliCPUs: 50}, self(t, "burn"))
	c.goOn(t)
	// The kernel counts the periods in which it stopped the group. The deadline is for a test that
	// fails.
	for deadline := time.Now().Add(time.Minute); throttled(t, g) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never throttled: %s", contents(filepath.Join(g.dirs[0], "cpu.stat")))
		}
	}
}

func throttled(t *testing.T, g *Group) int {
	_, rest, _ := strings.Cut(contents(filepath.Join(g.dirs[0], "cpu.stat")), "nr_throttled ")
	count, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.Atoi(count)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestRemoveWhileAProcessDies(t *testing.T) {
	g, c := start(t, realTree(t), all, exec.CommandContext(t.Context(), "sleep", "600"))
	if err := g.Remove(expired(t)); err == nil {
		t.Fatal("removed with a process in it")
	}
	if err := c.Process.Kill(); err != nil { // not waited for
		t.Fatal(err)
	}
	if err := g.Remove(t.Context()); err != nil {
		t.Error(err)
	}
}

func expired(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestDeadRunsAreSwept(t *testing.T) {
	tree := realTree(t)
	for _, id := range []string{"dead", "alive"} {
		if _, unenforced, err := tree.New(id, all); err != nil || len(unenforced) > 0 {
			t.Fatalf("unenforced %v, %v", unenforced, err)
		}
	}
	if err := tree.Sweep(func(id string) bool { return id == "alive" }); err != nil {
		t.Error(err)
	}
	for _, base := range tree.bases() {
		if ids, err := tree.files.list(filepath.Join(base, tree.top)); err != nil || !slices.Equal(ids, []string{"alive"}) {
			t.Errorf("%s: %v, %v", base, ids, err)
		}
	}
	if err := tree.Sweep(func(string) bool { return false }); err != nil {
		t.Error(err)
	}
}

func TestManyAtOnceForReal(t *testing.T) {
	tree := realTree(t)
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() {
			for i := range 10 {
				g, unenforced, err := tree.New(fmt.Sprintf("%d-%d", w, i), all)
				if err != nil || len(unenforced) > 0 {
					t.Errorf("unenforced %v, %v", unenforced, err)
					continue
				}
				if err := g.Remove(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
}

// On any machine and for any user, the limits reported as missing are those that are not enforced.
func TestMissingMatchesThisMachine(t *testing.T) {
	tree, err := Open(fmt.Sprintf("rollout-test-%d", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	g, unenforced, err := tree.New("a", all)
	if err != nil {
		t.Fatal(err)
	}
	missing := tree.Missing()
	if !slices.Equal(unenforced, slices.Sorted(maps.Keys(missing))) {
		t.Errorf("unenforced %v, missing %v", unenforced, missing)
	}
	if err := g.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	t.Logf("missing: %v", missing)
}

func BenchmarkNew(b *testing.B) {
	tree := realTree(b)
	for i := 0; b.Loop(); i++ {
		g, _, err := tree.New(strconv.Itoa(i), all)
		if err != nil {
			b.Fatal(err)
		}
		if err := g.Remove(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
