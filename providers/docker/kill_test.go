package docker

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/org/rollout-action/internal/environment"
)

// timesOut runs a script that does not end by itself.
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
	p := newProvider(t, nil)
	env := newEnvironment(t, p, environment.CreateOptions{Limits: environment.Limits{Pids: 40}})
	err := timesOut(t, env, "for i in {1..200}; do sleep 600 & done; sleep 600", 2*time.Second)
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

func TestTimeoutAfterBashIsGone(t *testing.T) {
	p := newProvider(t, nil)
	env := newEnvironment(t, p, environment.CreateOptions{})
	err := timesOut(t, env, "rm -f /bin/bash /usr/bin/bash; sleep 600 & sleep 600", 2*time.Second)
	if environment.KindOf(err) != environment.KindLost || environment.IsTransient(err) || errors.Is(err, environment.ErrTimeout) {
		t.Errorf("error %v, want kind lost", err)
	}
	state, err := p.api.ContainerInspect(t.Context(), env.ID())
	if err != nil || state.State.Running {
		t.Errorf("the container still runs (%v)", err)
	}
}

func TestTimeoutAfterWorkDirIsGone(t *testing.T) {
	p := newProvider(t, nil)
	ref := buildImage(t, p, map[string]string{"Dockerfile": "FROM " + testImage + "\nWORKDIR /app\n"})
	env := newEnvironment(t, p, environment.CreateOptions{Image: ref})
	if err := timesOut(t, env, "rmdir /app; setsid sleep 600 & sleep 600", time.Second); !errors.Is(err, environment.ErrTimeout) {
		t.Errorf("error %v, want %v", err, environment.ErrTimeout)
	}
	if _, err := env.Exec(t.Context(), "true", environment.ExecOptions{}); environment.KindOf(err) != environment.KindExec {
		t.Errorf("a command without its folder: %v", err)
	}
	var out bytes.Buffer
	if _, err := env.Exec(t.Context(), "cat /proc/[0-9]*/cmdline | tr '\\0' ' '", environment.ExecOptions{WorkDir: "/", Stdout: &out}); err != nil || strings.Contains(out.String(), "sleep 600") {
		t.Errorf("still there: %s (%v)", &out, err)
	}
}

// Somebody may be looking into the environment.
func TestTimeoutSparesCommandsOfOthers(t *testing.T) {
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
		_, err := p.container(env).Exec(t.Context(), "touch /tmp/looking; (sleep 4; echo child) & sleep 4; wait; echo looked", environment.ExecOptions{Stdout: &out})
		other <- err
	}()
	err := timesOut(t, env, "touch /tmp/began; until [ -e /tmp/looking ]; do sleep 0.05; done; echo both; sleep 600", 2*time.Second)
	if !errors.Is(err, environment.ErrTimeout) {
		t.Error(err)
	}
	if err := <-other; err != nil || out.String() != "child\nlooked\n" {
		t.Errorf("the other command: %v, %q", err, &out)
	}
}

// container is another handle for an environment.
func (p *Provider) container(env environment.Environment) *containerEnv {
	return &containerEnv{p: p, id: env.ID()}
}

// A process whose first thread has ended looks dead but is not.
func TestTimeoutKillsThreadsOfZombies(t *testing.T) {
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
	err := timesOut(t, env, "setsid python3 /k/zombie.py & sleep 600", 2*time.Second)
	if !errors.Is(err, environment.ErrTimeout) {
		t.Fatal(err)
	}
	if got := run(t, env, "a=$(wc -c </tmp/ticks); sleep 0.5; b=$(wc -c </tmp/ticks); echo $((a > 0)) $((b - a))"); got != "1 0\n" {
		t.Errorf("ticks before, and since: %s", got)
	}
}

// What PID 1 starts is not taken for an orphan of the command, as it shares PID 1's session.
func TestTimeoutSparesChildrenOfTheEntrypoint(t *testing.T) {
	p := newProvider(t, nil)
	ref := buildImage(t, p, map[string]string{
		"Dockerfile": "FROM " + testImage + "\nCOPY entry.sh /entry.sh\nENTRYPOINT [\"bash\", \"/entry.sh\"]\n",
		"entry.sh":   "until [ -e /order ]; do sleep 0.02; done\nsleep 600 & echo $! > /child\nwhile :; do wait; sleep 1; done\n",
	})
	env := newEnvironment(t, p, environment.CreateOptions{Image: ref})
	err := timesOut(t, env, "touch /order; until [ -s /child ]; do sleep 0.02; done; setsid sleep 600 & sleep 600", 2*time.Second)
	if !errors.Is(err, environment.ErrTimeout) {
		t.Fatal(err)
	}
	got := run(t, env, `for p in /proc/[0-9]*; do [[ $(tr '\0' + <$p/cmdline) == sleep+600+ ]] && echo ${p#/proc/}; done 2>/dev/null; cat /child`)
	if sleeping := strings.Fields(got); len(sleeping) != 2 || sleeping[0] != sleeping[1] {
		t.Errorf("alive, and then to be spared: %q", sleeping)
	}
}
