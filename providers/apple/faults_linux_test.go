package apple

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/hostedtest"
	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/providers/apple/appletest"
)

// A command runs once and its output arrives whole, although the exec that carries it breaks again
// and again, and the values of variables are in no arguments.
func TestCommandsOutliveBrokenExecs(t *testing.T) {
	s := serve(t)
	p := s.open(t, nil)
	e := hostedtest.Create(t, p, environment.CreateOptions{Env: map[string]string{"KEY": "secret-of-the-trial"}})
	before, _ := s.Calls()
	s.SetFaults(appletest.Faults{Cut: 300 << 10})
	// The connection that is there is not limited: the next ones are.
	s.BreakExecs(e.ID())
	large := make([]byte, 1<<20)
	_, _ = rand.Read(large)
	var out bytes.Buffer
	code, err := e.Exec(t.Context(), `echo once >>/count; cat; [ "$KEY" = secret-of-the-trial ] && [ $(wc -l </count) = 1 ] || exit 9; exit 7`, environment.ExecOptions{
		Stdin: bytes.NewReader(large), Stdout: &out,
	})
	if err != nil || code != 7 || !bytes.Equal(out.Bytes(), large) {
		t.Errorf("code %d, %v, %d bytes", code, err, out.Len())
	}
	if after, _ := s.Calls(); after["exec"]-before["exec"] < 3 {
		t.Errorf("%d execs", after["exec"]-before["exec"])
	}
	if seen := s.Arguments(); strings.Contains(seen, "secret-of-the-trial") {
		t.Errorf("arguments have a value: %s", seen)
	}
}

func TestATrialTakesFewCommands(t *testing.T) {
	s := serve(t)
	p := s.open(t, nil)
	began := time.Now()
	e := hostedtest.Create(t, p, environment.CreateOptions{})
	for range 5 {
		if code, err := e.Exec(t.Context(), "echo output", environment.ExecOptions{}); err != nil || code != 0 {
			t.Fatalf("code %d, %v", code, err)
		}
	}
	if err := e.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	calls, moved := s.Calls()
	most := hostedtest.Connections(began)
	for command, n := range calls {
		switch command {
		case "system status", "image inspect", "run", "delete":
			if n != 1 {
				t.Errorf("%s: %d times", command, n)
			}
		case "exec":
			if n > most {
				t.Errorf("%s: %d times", command, n)
			}
		case "list": // whether a container is still there whose exec has ended
			if n > most-1 {
				t.Errorf("%s: %d times", command, n)
			}
		default:
			t.Errorf("%s: %d times", command, n)
		}
	}
	program, err := p.program.Read()
	if err != nil {
		t.Fatal(err)
	}
	if beyond := moved - int64(len(program.Compressed)); len(calls) < 5 || beyond > int64(most)*64<<10 {
		t.Errorf("%v, and %d bytes beyond the program's", calls, beyond)
	}
}

func TestAContainerThatVanishesIsLost(t *testing.T) {
	s := serve(t)
	p := s.open(t, nil)
	e := hostedtest.Create(t, p, environment.CreateOptions{})
	s.Vanish(e.ID())
	if _, err := e.Exec(t.Context(), "true", environment.ExecOptions{}); environment.KindOf(err) != environment.KindLost || environment.IsTransient(err) {
		t.Errorf("%v", err)
	}
	if err := errors.Join(e.Destroy(t.Context()), p.Remove(t.Context(), e.ID())); err != nil {
		t.Errorf("destroying an environment that is gone: %v", err)
	}
}

// The system service is stopped while a trial runs, and starts again.
func TestAServiceThatDoesNotRunIsNamed(t *testing.T) {
	s := serve(t)
	p := s.open(t, nil)
	s.SetFaults(appletest.Faults{Down: true})
	_, err := New(t.Context(), nil, s.options())
	if known := new(environment.Error); !errors.As(err, &known) || known.Kind != environment.KindUnavailable || known.Unconfigured || !strings.Contains(known.Hint, "container system start") {
		t.Errorf("at the start: %v", err)
	}
	for name, err := range map[string]error{
		"list":   second(p.List(t.Context())),
		"create": second(p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: testenv.Image, Labels: environment.Labels{Job: "faults"}})),
		"pull":   p.PullImage(t.Context(), testenv.Image, nil),
		"build":  second(p.BuildImage(t.Context(), environment.BuildOptions{Name: "x", Context: fstest.MapFS{"Dockerfile": {Data: []byte("FROM " + testenv.Image)}}})),
	} {
		if environment.KindOf(err) != environment.KindUnavailable || !environment.IsTransient(err) || !strings.Contains(err.Error(), "container system start") {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.SetFaults(appletest.Faults{})
	if _, err := p.List(t.Context()); err != nil {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestPullsThatFail(t *testing.T) {
	s := serve(t)
	p := s.open(t, nil)
	s.Publish(testenv.Image)
	_, err := p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: testenv.Image, Labels: environment.Labels{Job: "faults"}})
	if !errors.Is(err, environment.ErrNoImage) || environment.KindOf(err) != environment.KindStart {
		t.Errorf("without a pull: %v", err)
	}
	s.SetFaults(appletest.Faults{Fail: func(command string) string {
		if command == "image pull" {
			return "internalError: \"HTTP request failed with response: 401 Unauthorized. Reason:\x1b[31m no\""
		}
		return ""
	}})
	err = p.PullImage(t.Context(), testenv.Image, nil)
	if environment.KindOf(err) != environment.KindPull || !environment.IsTransient(err) || !strings.Contains(err.Error(), "401") || strings.ContainsAny(err.Error(), "\x1b\n") || !strings.Contains(err.Error(), "container registry login") {
		t.Errorf("a registry that refuses: %v", err)
	}
	s.SetFaults(appletest.Faults{})
	var told []string
	if err := p.PullImage(t.Context(), testenv.Image, func(line string) { told = append(told, line) }); err != nil || len(told) != 2 {
		t.Errorf("%v, %q", err, told)
	}
	if err := p.PullImage(t.Context(), testenv.Image, nil); err != nil {
		t.Error(err)
	}
	if calls, _ := s.Calls(); calls["image pull"] != 2 {
		t.Errorf("%d pulls", calls["image pull"])
	}
}

// A container that was stopped on purpose is kept, and one that stopped by itself is not: the list
// has both as stopped.
func TestOnlyContainersThatWereStoppedOnPurposeAreKept(t *testing.T) {
	s := serve(t)
	p, later := s.open(t, nil), s.open(t, nil)
	kept, crashed := hostedtest.Create(t, p, environment.CreateOptions{}), hostedtest.Create(t, p, environment.CreateOptions{})
	if err := kept.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Crash(crashed.ID())
	if _, err := crashed.Exec(t.Context(), "true", environment.ExecOptions{}); environment.KindOf(err) != environment.KindLost || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("%v", err)
	}
	listed, err := later.List(t.Context())
	if err != nil || len(listed) != 2 {
		t.Fatalf("%+v, %v", listed, err)
	}
	for _, l := range listed {
		if l.Kept != (l.ID == kept.ID()) || l.Labels.Job != "faults" {
			t.Errorf("%+v", l)
		}
		if err := later.Remove(t.Context(), l.ID); err != nil {
			t.Error(err)
		}
	}
	if listed, err := p.List(t.Context()); err != nil || len(listed) != 0 {
		t.Errorf("%+v, %v", listed, err)
	}
}

// A creation that is cancelled or fails leaves nothing.
func TestFailedCreationsLeaveNothing(t *testing.T) {
	s := serve(t)
	p := s.open(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	s.SetFaults(appletest.Faults{Fail: func(command string) string {
		if command == "exec" {
			cancel()
		}
		return ""
	}})
	if _, err := p.CreateEnvironment(ctx, environment.CreateOptions{Image: testenv.Image, Labels: environment.Labels{Job: "faults"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled one: %v", err)
	}
	s.SetFaults(appletest.Faults{Fail: func(command string) string {
		if command == "run" {
			return `internalError: "failed to bootstrap container"`
		}
		return ""
	}})
	if _, err := p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: testenv.Image, Labels: environment.Labels{Job: "faults"}}); environment.KindOf(err) != environment.KindStart {
		t.Errorf("one that fails: %v", err)
	}
	s.SetFaults(appletest.Faults{})
	if listed, err := p.List(t.Context()); err != nil || len(listed) != 0 {
		t.Errorf("%+v, %v", listed, err)
	}
}
