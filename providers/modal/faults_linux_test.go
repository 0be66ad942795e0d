package modal

import (
	"bytes"
	"crypto/rand"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/hostedtest"
	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/providers/modal/modaltest"
)

// A command runs once and its output arrives whole, although streams break in the middle and
// requests fail.
func TestCommandsOutliveBrokenStreams(t *testing.T) {
	s := serve(t)
	p := s.open(t, nil)
	t.Cleanup(func() { _ = p.Close() })
	var calls atomic.Int64
	s.SetFaults(modaltest.Faults{Cut: 200_000, Fail: func(string) error {
		if calls.Add(1)%7 == 0 {
			return status.Error(codes.Unavailable, "try again")
		}
		return nil
	}})
	e := hostedtest.Create(t, p, environment.CreateOptions{})
	large := make([]byte, 2<<20)
	_, _ = rand.Read(large)
	var out bytes.Buffer
	code, err := e.Exec(t.Context(), "echo once >>/count; cat; [ $(wc -l </count) = 1 ] || exit 9; exit 7", environment.ExecOptions{Stdin: bytes.NewReader(large), Stdout: &out})
	if err != nil || code != 7 || !bytes.Equal(out.Bytes(), large) {
		t.Errorf("code %d, %v, %d bytes", code, err, out.Len())
	}
	if n, _ := s.Calls(); n["TaskExecStdioRead"] < 5 {
		t.Errorf("%d streams: they did not break", n["TaskExecStdioRead"])
	}
}

// A trial takes no more requests than the protocol needs: one each for the image, the sandbox and
// its end (and the wait for that), one exec with one stream for all commands, and one write for all
// that waits to be sent.
func TestATrialTakesFewRequests(t *testing.T) {
	s := serve(t)
	p := s.open(t, nil)
	t.Cleanup(func() { _ = p.Close() })
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
	writes, most := calls["TaskExecStdinWrite"], hostedtest.Connections(began)
	for _, method := range []string{"AppGetOrCreate", "ImageGetOrCreate", "SandboxCreateV2", "SandboxTerminateV2", "SandboxWaitV2"} {
		if calls[method] != 1 {
			t.Errorf("%s was called %d times", method, calls[method])
		}
	}
	for _, method := range []string{"TaskExecStart", "TaskExecStdioRead"} {
		if calls[method] < 1 || calls[method] > most {
			t.Errorf("%s was called %d times", method, calls[method])
		}
	}
	program, err := p.program.Read()
	if err != nil {
		t.Fatal(err)
	}
	beyond := moved - int64(len(program.Compressed))
	t.Logf("%d writes of input, %d bytes beyond the program's %d", writes, beyond, len(program.Compressed))
	if beyond > int64(most)*64<<10 {
		t.Errorf("%d bytes beyond the program", beyond)
	}
}

func TestErrorsOfTheServiceAreTyped(t *testing.T) {
	s := serve(t)
	p := s.open(t, nil)
	t.Cleanup(func() { _ = p.Close() })
	for _, tc := range []struct {
		code      codes.Code
		kind      environment.Kind
		transient bool
	}{
		{codes.ResourceExhausted, environment.KindResources, true},
		{codes.Unavailable, environment.KindStart, true},
		{codes.PermissionDenied, environment.KindStart, false},
		{codes.Unauthenticated, environment.KindUnavailable, false},
	} {
		s.SetFaults(modaltest.Faults{Fail: func(method string) error {
			if method == "SandboxCreateV2" {
				return status.Error(tc.code, "no\x1b[31m more")
			}
			return nil
		}})
		_, err := p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: testenv.Image})
		if environment.KindOf(err) != tc.kind || environment.IsTransient(err) != tc.transient || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%s: %v", tc.code, err)
		}
	}
	s.SetFaults(modaltest.Faults{Lag: true})
	e := hostedtest.Create(t, p, environment.CreateOptions{})
	s.Vanish(e.ID())
	if _, err := e.Exec(t.Context(), "true", environment.ExecOptions{}); environment.KindOf(err) != environment.KindLost {
		t.Errorf("a sandbox that vanished: %v", err)
	}
	if listed, err := p.List(t.Context()); err != nil || len(listed) != 0 {
		t.Errorf("a list that lags: %v, %v", listed, err)
	}
	if err := e.Destroy(t.Context()); err != nil {
		t.Errorf("destroying what vanished: %v", err)
	}
}

func TestGPUsAndALifetimeAreAskedFor(t *testing.T) {
	s := serve(t)
	p := s.open(t, map[string]any{"regions": []any{"us-east"}, "verbose": true})
	t.Cleanup(func() { _ = p.Close() })
	e := hostedtest.Create(t, p, environment.CreateOptions{Limits: environment.Limits{GPUs: 1, GPUTypes: "T4,A100"}})
	if code, err := e.Exec(t.Context(), "exit 3", environment.ExecOptions{}); err != nil || code != 3 {
		t.Errorf("code %d, %v", code, err)
	}
	_, err := p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: testenv.Image, Lifetime: maxLifetime + 1})
	if environment.KindOf(err) != environment.KindResources {
		t.Errorf("a lifetime that no sandbox has: %v", err)
	}
	t.Setenv("MODAL_TOKEN_SECRET", "wrong")
	_, err = New(t.Context(), nil, Options{})
	if known := new(environment.Error); !errors.As(err, &known) || known.Kind != environment.KindUnavailable || !known.Refused || strings.Contains(err.Error(), "wrong") {
		t.Errorf("a wrong token: %v", err)
	}
}

// An image is not pulled without the login that the job asks for.
func TestASecretThatIsNotThereIsNamed(t *testing.T) {
	s := serve(t)
	p := s.open(t, map[string]any{"registry": "registry.test/evals", "registry_secret": "logins"})
	t.Cleanup(func() { _ = p.Close() })
	s.SetFaults(modaltest.Faults{Fail: func(method string) error {
		if method == "SecretGetOrCreate" {
			return status.Error(codes.NotFound, "no such secret")
		}
		return nil
	}})
	_, err := p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: testenv.Image})
	if environment.KindOf(err) != environment.KindPull || !strings.Contains(err.Error(), "find the secret logins of registry_secret") {
		t.Errorf("kind %q: %v", environment.KindOf(err), err)
	}
}
