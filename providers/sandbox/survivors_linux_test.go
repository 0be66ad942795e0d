package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
)

// ownerKey makes this program own sandboxes in the store that it names, until it is killed.
const ownerKey = "ROLLOUT_TEST_SANDBOX_OWNER"

func init() { //nolint:gochecknoinits // TestMain is for all tests of the package
	if dir := os.Getenv(ownerKey); dir != "" {
		Init()
		if err := own(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
}

// hiding leaves processes behind in all known ways. Their name is the marker.
const hiding = `
name='exec -a "$0" sleep 100000'
setsid bash -c "$name" MARKER > /dev/null 2>&1 &
nohup bash -c "$name" MARKER > /dev/null 2>&1 &
env -i setsid bash -c "($name) & disown" MARKER > /dev/null 2>&1
`

// own makes sandboxes that are busy in all known ways, reports that, and waits to be killed.
func own(dir string) error {
	ctx := context.Background()
	p, err := New(ctx, map[string]any{"dir": dir, "base": baseHost}, Options{})
	if err != nil {
		return err
	}
	for range 3 {
		e, err := p.CreateEnvironment(ctx, environment.CreateOptions{
			Image: testImage, Labels: environment.Labels{Job: "survivors"}, Limits: environment.Limits{MilliCPUs: 500, Memory: 256 << 20, Pids: 100},
		})
		if err != nil {
			return err
		}
		if code, err := e.Exec(ctx, strings.ReplaceAll(hiding, "MARKER", dir), environment.ExecOptions{}); err != nil || code != 0 {
			return fmt.Errorf("exit code %d, error %w", code, err)
		}
		go func() {
			_, _ = e.Exec(ctx, "trap '' TERM HUP INT; while :; do sleep 1; done # "+dir, environment.ExecOptions{})
		}()
	}
	building := make(chan struct{})
	once := sync.OnceFunc(func() { close(building) })
	go func() {
		_, _ = p.BuildImage(ctx, environment.BuildOptions{
			Name:    "survivor",
			Context: fstest.MapFS{"Dockerfile": {Data: []byte("FROM any\nRUN printf 'be%s\\n' gun; while :; do sleep 1; done # " + dir + "\n")}},
			Progress: func(line string) {
				if strings.Contains(line, "begun") {
					once()
				}
			},
		})
	}()
	<-building
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// marked returns the living processes that name one of the markers in their arguments, environment
// or mounts, as far as this user may read them. It leaves out this process.
func marked(t *testing.T, markers ...string) []string {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	must(t, err)
	var found []string
	for _, dir := range dirs {
		if filepath.Base(dir) == strconv.Itoa(os.Getpid()) {
			continue
		}
		arguments, _ := os.ReadFile(dir + "/cmdline")
		variables, _ := os.ReadFile(dir + "/environ")
		mounts, _ := os.ReadFile(dir + "/mountinfo")
		all := string(arguments) + string(variables) + string(mounts)
		if slices.ContainsFunc(markers, func(m string) bool { return strings.Contains(all, m) }) {
			found = append(found, dir+" "+string(bytes.ReplaceAll(arguments, []byte{0}, []byte{' '})))
		}
	}
	return found
}

func TestSandboxesEndWithRollout(t *testing.T) {
	dir := storeDir(t)
	p := newProvider(t, map[string]any{"dir": dir, "base": baseHost}) // or the test is skipped
	owner := exec.Command(self)
	owner.Env = append(os.Environ(), ownerKey+"="+dir)
	owner.Stderr = os.Stderr
	stdin, err := owner.StdinPipe()
	must(t, err)
	defer stdin.Close()
	stdout, err := owner.StdoutPipe()
	must(t, err)
	must(t, owner.Start())
	said, _ := bufio.NewReader(stdout).ReadString('\n')
	if said != "ready\n" {
		_ = owner.Process.Kill()
		t.Fatalf("the owner said %q, and ended: %v", said, owner.Wait())
	}
	markers := []string{dir}
	for _, sub := range []string{"env", "tmp"} { // changes are mounted under these names
		entries, err := os.ReadDir(p.store.path(sub))
		must(t, err)
		for _, entry := range entries {
			markers = append(markers, sub+"/"+entry.Name()+"/")
		}
	}
	// Process 1, the three that hide, and one in the foreground; process 1 and a step of the build.
	if alive := marked(t, markers...); len(alive) < 3*5+2 {
		t.Fatalf("only %d processes of sandboxes are found:\n%s", len(alive), strings.Join(alive, "\n"))
	}
	must(t, owner.Process.Kill())
	_ = owner.Wait()

	eventually(t, "the processes of a killed owner live on", func() []string { return marked(t, markers...) })
	listed, err := p.List(t.Context())
	must(t, err)
	if len(listed) != 3 {
		t.Errorf("%d environments are listed, want 3: %v", len(listed), listed)
	}
	// The build's control group has no environment. The next start removes it, the others go with
	// theirs.
	next := newProvider(t, map[string]any{"dir": dir, "base": baseHost})
	for _, one := range listed {
		if one.Labels.Job != "survivors" || one.Kept {
			t.Errorf("listed as %+v", one)
		}
		must(t, next.Remove(t.Context(), one.ID))
	}
	wantNothing(t, next)
}

// wantNothing checks that a store has no environments and no unfinished files, and the machine no
// control groups of it.
func wantNothing(t *testing.T, p *Provider) {
	t.Helper()
	for _, sub := range []string{"env", "tmp"} {
		if entries, err := os.ReadDir(p.store.path(sub)); err != nil || len(entries) > 0 {
			t.Errorf("%s holds %v, error %v", sub, entries, err)
		}
	}
	eventually(t, "control groups are left", func() []string {
		p.store.sweepGroups(p.groups)
		var left []string
		for _, pattern := range []string{"/sys/fs/cgroup/rollout/", "/sys/fs/cgroup/*/rollout/"} {
			groups, _ := filepath.Glob(pattern + p.store.group("") + "*")
			left = append(left, groups...)
		}
		return left
	})
}

// eventually fails the test if left does not become empty within half a minute.
func eventually(t *testing.T, problem string, left func() []string) {
	t.Helper()
	var last []string
	for range 600 {
		if last = left(); len(last) == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("%s:\n%s", problem, strings.Join(last, "\n"))
}

func TestNothingIsMountedOnTheMachine(t *testing.T) {
	dir := storeDir(t)
	p := newProvider(t, map[string]any{"dir": dir, "base": baseHost})
	mounted := func(when string) {
		t.Helper()
		points, err := os.ReadFile("/proc/self/mountinfo")
		must(t, err)
		if bytes.Contains(points, []byte(filepath.Base(dir))) {
			t.Errorf("%s, this is mounted:\n%s", when, points)
		}
	}
	e := create(t, p, environment.CreateOptions{Image: testImage})
	mounted("while a sandbox runs")
	if inside := run(t, e, "cat /proc/self/mountinfo"); !strings.Contains(inside, " / / ") {
		t.Errorf("in a sandbox, this is mounted:\n%s", inside)
	}
	_, err := p.BuildImage(t.Context(), environment.BuildOptions{
		Name: "mounts", Context: fstest.MapFS{"Dockerfile": {Data: []byte("FROM any\nRUN echo here\n")}},
		Progress: func(string) { mounted("while an image is built") },
	})
	must(t, err)
	must(t, e.Destroy(t.Context()))
	mounted("at the end")
}

func TestHundredSandboxesAtOnce(t *testing.T) {
	p := newProvider(t, map[string]any{"dir": storeDir(t), "base": baseHost})
	var wait sync.WaitGroup
	envs := make([]environment.Environment, 100)
	for i := range envs {
		wait.Go(func() {
			e, err := p.CreateEnvironment(t.Context(), environment.CreateOptions{
				Image: testImage, Env: map[string]string{"NUMBER": fmt.Sprint(i)}, Limits: environment.Limits{Pids: 50},
			})
			if err != nil {
				t.Error(err)
				return
			}
			envs[i] = e
		})
	}
	wait.Wait()
	for i, e := range envs {
		if e == nil {
			continue
		}
		wait.Go(func() {
			var out bytes.Buffer
			script := `touch /tmp/$NUMBER /usr/bin/number$NUMBER && ls /tmp && ls /usr/bin/number* && ls -d /proc/[0-9]* | wc -l`
			code, err := e.Exec(t.Context(), script, environment.ExecOptions{Stdout: &out})
			var processes int
			_, scanning := fmt.Sscanf(out.String(), fmt.Sprintf("%d\n/usr/bin/number%d\n%%d", i, i), &processes)
			if err != nil || code != 0 || scanning != nil || processes > 5 {
				t.Errorf("number %d: exit code %d, error %v, output %q", i, code, err, out.String())
			}
		})
	}
	wait.Wait()
	listed, err := p.List(t.Context())
	if err != nil || len(listed) != len(envs) {
		t.Errorf("%d are listed, error %v", len(listed), err)
	}
	for _, e := range envs {
		if e != nil {
			wait.Go(func() {
				if err := e.Destroy(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wait.Wait()
	wantNothing(t, p)
}
