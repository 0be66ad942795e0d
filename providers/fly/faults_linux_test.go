package fly

import (
	"bytes"
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/hostedtest"
	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/providers/fly/flytest"
)

// every returns whether a request named so is the n-th, 2n-th and so on.
func every(n int64, name string) func(request string) bool {
	var calls atomic.Int64
	return func(request string) bool { return request == name && calls.Add(1)%n == 0 }
}

// A command runs once and its output arrives whole, although the commands that carry it time out,
// fail, lose their answers or half of their output, and are limited in their rate.
func TestCommandsOutliveBrokenExecs(t *testing.T) {
	s := serve(t)
	p := s.open(t, nil)
	t.Cleanup(func() { _ = p.Close() })
	e := hostedtest.Create(t, p, environment.CreateOptions{})
	fail, limit, lose, halve := every(5, "POST exec"), every(7, "POST exec"), every(6, "POST exec"), every(4, "")
	var limited atomic.Int64
	s.SetFaults(flytest.Faults{
		ExecLimit: 3 * time.Second, // less than a letter waits
		Fail: func(request string) int {
			switch {
			case fail(request):
				return http.StatusServiceUnavailable
			case limit(request):
				limited.Add(1)
				return http.StatusTooManyRequests
			}
			return 0
		},
		Lose:  lose,
		Halve: func() bool { return halve("") },
	})
	large := make([]byte, 2<<20)
	_, _ = rand.Read(large)
	var out bytes.Buffer
	code, err := e.Exec(t.Context(), "echo once >>/count; cat; sleep 8; [ $(wc -l </count) = 1 ] || exit 9; exit 7", environment.ExecOptions{Stdin: bytes.NewReader(large), Stdout: &out})
	if err != nil || code != 7 || !bytes.Equal(out.Bytes(), large) {
		t.Errorf("code %d, %v, %d bytes", code, err, out.Len())
	}
	if limited.Load() == 0 {
		t.Error("nothing was limited")
	}
}

// rollout clean knows no configuration: variables name the app.
func TestCleanListsTheAppOfAVariable(t *testing.T) {
	s := serve(t)
	own := s.open(t, nil)
	t.Cleanup(func() { _ = own.Close() })
	if err := own.client.createApp(t.Context(), "evals", defaultOrg); err != nil {
		t.Fatal(err)
	}
	p := s.open(t, map[string]any{"app": "evals"})
	t.Cleanup(func() { _ = p.Close() })
	e := hostedtest.Create(t, p, environment.CreateOptions{})
	for app, want := range map[string]int{"": 0, "evals": 1} {
		t.Setenv("FLY_APP", app)
		cleaning, err := New(t.Context(), nil, Options{Clean: true, Images: s.images})
		if err != nil {
			t.Fatal(err)
		}
		listed, err := cleaning.List(t.Context())
		if err != nil || len(listed) != want || want == 1 && listed[0].ID != e.ID() {
			t.Errorf("FLY_APP=%s: %v, %v", app, listed, err)
		}
		_ = cleaning.Close()
	}
}

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
	execs, moved := s.Calls()
	if err := e.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	calls, _ := s.Calls()
	for _, request := range []string{"GET apps", "POST apps", "POST machines", "DELETE machines"} {
		if calls[request] != 1 {
			t.Errorf("%s: %d times", request, calls[request])
		}
	}
	program, err := p.program.Read()
	if err != nil {
		t.Fatal(err)
	}
	parts := (len(program.Compressed) + partSize - 1) / partSize
	letters, beyond := execs["POST exec"]-parts-1, moved-int64(len(program.Compressed)*4/3)
	t.Logf("%d parts of the program, %d letters, %d bytes beyond the program's", parts, letters, beyond)
	// Both sides say every five seconds that they are there, and a letter waits twelve.
	if most := 40 + 3*int(time.Since(began)/(5*time.Second)); letters > most || beyond > 64<<10 {
		t.Errorf("%d letters, %d bytes", letters, beyond)
	}
}

// A creation is repeated where the region is full, and found where its answer was lost.
func TestCreationsAreNotRepeatedBlindly(t *testing.T) {
	s := serve(t)
	p := s.open(t, map[string]any{"region": "iad"})
	t.Cleanup(func() { _ = p.Close() })
	full := every(2, "POST machines")
	var first atomic.Bool
	s.SetFaults(flytest.Faults{Fail: func(request string) int {
		if request == "POST machines" && !full(request) {
			return http.StatusConflict
		}
		return 0
	}, Lose: func(request string) bool { return request == "POST machines" && first.CompareAndSwap(false, true) }})
	hostedtest.Create(t, p, environment.CreateOptions{})
	s.SetFaults(flytest.Faults{Lose: func(request string) bool { return request == "POST machines" }})
	hostedtest.Create(t, p, environment.CreateOptions{})
	s.SetFaults(flytest.Faults{})
	if listed, err := p.List(t.Context()); err != nil || len(listed) != 2 {
		t.Errorf("%d machines: %v", len(listed), err)
	}
	s.SetFaults(flytest.Faults{Fail: func(request string) int {
		if request == "POST machines" {
			return http.StatusConflict
		}
		return 0
	}})
	_, err := p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: testenv.Image, Labels: environment.Labels{Job: "faults"}})
	if environment.KindOf(err) != environment.KindResources || !environment.IsTransient(err) || strings.Contains(err.Error(), "secret") {
		t.Errorf("a full region: %v", err)
	}
}

func TestAMachineThatVanishesIsLost(t *testing.T) {
	s := serve(t)
	p := s.open(t, nil)
	t.Cleanup(func() { _ = p.Close() })
	e := hostedtest.Create(t, p, environment.CreateOptions{})
	s.Vanish(e.ID())
	if _, err := e.Exec(t.Context(), "true", environment.ExecOptions{}); environment.KindOf(err) != environment.KindLost {
		t.Errorf("%v", err)
	}
	other := hostedtest.Create(t, p, environment.CreateOptions{})
	if err := other.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.SetFaults(flytest.Faults{Lag: true})
	if listed, err := p.List(t.Context()); err != nil || len(listed) != 0 {
		t.Errorf("a list that lags: %v, %v", listed, err)
	}
	for _, gone := range []environment.Environment{e, other} {
		if err := errors.Join(gone.Destroy(t.Context()), p.Remove(t.Context(), gone.ID())); err != nil {
			t.Errorf("destroying an environment that is gone: %v", err)
		}
	}
}

// The app of a job is shared by its shards, and goes with its last machine, whoever removes that.
func TestAppsComeAndGoWithTheirMachines(t *testing.T) {
	s := serve(t)
	one, two := s.open(t, nil), s.open(t, nil)
	t.Cleanup(func() { _ = two.Close() })
	a, b := hostedtest.Create(t, one, environment.CreateOptions{}), hostedtest.Create(t, two, environment.CreateOptions{})
	if apps := s.Apps(); len(apps) != 1 || !isJobApp(apps[0]) {
		t.Errorf("apps %v", apps)
	}
	if err := errors.Join(a.Destroy(t.Context()), one.Close()); err != nil || len(s.Apps()) != 1 {
		t.Errorf("%v, apps %v", err, s.Apps())
	}
	if err := b.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	listed, err := two.List(t.Context())
	if err != nil || len(listed) != 1 || !listed[0].Kept || listed[0].Labels.Job != "faults" {
		t.Fatalf("%+v, %v", listed, err)
	}
	if err := two.Remove(t.Context(), listed[0].ID); err != nil {
		t.Fatal(err)
	}
	if apps := s.Apps(); len(apps) != 0 {
		t.Errorf("apps %v", apps)
	}
	c := hostedtest.Create(t, two, environment.CreateOptions{}) // another shard still uses the app
	if app, _, _ := strings.Cut(c.ID(), "/"); !slices.Contains(s.Apps(), app) {
		t.Errorf("%s is not in %v", c.ID(), s.Apps())
	}
}

func TestAWrongTokenIsRefusedWithoutSayingIt(t *testing.T) {
	serve(t)
	t.Setenv("FLY_API_TOKEN", "wrong-token")
	_, err := New(t.Context(), nil, Options{})
	if known := new(environment.Error); !errors.As(err, &known) || known.Kind != environment.KindUnavailable || !known.Refused || strings.Contains(err.Error(), "wrong-token") {
		t.Errorf("%v", err)
	}
	t.Setenv("FLY_API_TOKEN", flytest.Token)
	if _, err := New(t.Context(), map[string]any{"app": "no-such-app"}, Options{}); environment.KindOf(err) != environment.KindUnavailable {
		t.Errorf("an app that is not there: %v", err)
	}
}
