package docker

import (
	"errors"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/testenv"
)

// An engine gives a command whose connection broke the exit code 126, which commands may have as
// well.
func TestExitCode126(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	env := newEnvironment(t, p, environment.CreateOptions{})
	for _, script := range []string{"exit 126", "sleep 0.5; exit 126", "exec /etc/passwd"} {
		if code, err := env.Exec(t.Context(), script, environment.ExecOptions{}); code != 126 || err != nil {
			t.Errorf("%s: code %d, %v", script, code, err)
		}
	}
}

// Whatever fails while a command is started, it runs at most once, and Exec returns no exit code
// but its own.
func TestCommandsOnAFlakyEngine(t *testing.T) {
	direct := newProvider(t, nil)
	flaky := testenv.NewFlaky(t, 7)
	p := newProvider(t, nil)
	env := newEnvironmentOf(t, p, direct)
	began, finished := 0, 0
	for n := range 40 {
		flaky.Fail(0.4, "/exec")
		script := "echo x >> /runs; for i in {1..200}; do echo 0123456789; done; exit 7"
		code, err := env.Exec(t.Context(), script, environment.ExecOptions{})
		flaky.Fail(0, "")
		_, broken := direct.container(env).Exec(t.Context(), ":", environment.ExecOptions{})
		switch {
		case err == nil && code == 7:
			finished++
		case err == nil:
			t.Errorf("command %d: code %d", n, code)
		case environment.KindOf(err) != environment.KindLost:
			t.Errorf("command %d: %v", n, err)
		}
		if err == nil || !strings.Contains(err.Error(), environment.ErrNotBegun.Error()) {
			began++
		}
		if broken != nil || environment.KindOf(err) == environment.KindLost && !environment.IsTransient(err) {
			env = newEnvironmentOf(t, p, direct) // that one was killed
			began = 0
			continue
		}
		if runs := strings.Count(run(t, direct.container(env), "cat /runs 2>/dev/null || true"), "x"); runs > began {
			t.Errorf("after command %d: %d have run, %d of which were told", n, runs, began)
		}
	}
	t.Logf("%d of 40 finished; failed requests: %v", finished, flaky.Failed())
	if finished < 10 || len(flaky.Failed()) < 5 {
		t.Errorf("%d of 40 finished; failed requests: %v", finished, flaky.Failed())
	}
}

// The engine may carry out a request to start a command after its connection broke, and then
// refuses the next one for the same command.
func TestACommandThatAnEarlierRequestStartedBegan(t *testing.T) {
	direct := newProvider(t, nil)
	flaky := testenv.NewFlaky(t, 1)
	p := newProvider(t, nil)
	for _, test := range []struct {
		name     string
		opts     environment.ExecOptions
		notBegun bool
	}{
		{name: "a command that ran"},
		{name: "a command that could not be started", opts: environment.ExecOptions{WorkDir: "/missing"}, notBegun: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			env := newEnvironmentOf(t, p, direct)
			flaky.Late("POST .*/exec/.*/start$")
			_, err := env.Exec(t.Context(), "echo x >> /runs; echo output", test.opts)
			if environment.KindOf(err) != environment.KindLost || errors.Is(err, environment.ErrNotBegun) != test.notBegun {
				t.Errorf("kind %q, not begun %v: %v", environment.KindOf(err), errors.Is(err, environment.ErrNotBegun), err)
			}
		})
	}
}
