package fake_test

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/fake"
)

var ctx = context.Background()

func create(t *testing.T, p *fake.Provider, trial string) environment.Environment {
	t.Helper()
	env, err := p.CreateEnvironment(ctx, environment.CreateOptions{Image: "debian:bookworm",
		Labels: environment.Labels{Job: "job", Trial: trial, Owner: environment.Self()}})
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// TestMisuseOfTheFakeIsReported checks that violations of the contract are reported.
func TestMisuseOfTheFakeIsReported(t *testing.T) {
	var mu sync.Mutex
	var complaints []string
	p := fake.New(fake.Options{World: fake.NewWorld(), Complain: func(c string) {
		mu.Lock()
		defer mu.Unlock()
		complaints = append(complaints, c)
	}})
	expect := func(what string, parts ...string) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if len(complaints) != len(parts) {
			t.Fatalf("%s: complaints %q, want %d", what, complaints, len(parts))
		}
		for i, part := range parts {
			if !strings.Contains(complaints[i], part) {
				t.Errorf("%s: complaint %q does not contain %q", what, complaints[i], part)
			}
		}
		complaints = nil
	}

	env := create(t, p, "a")
	if _, err := env.Exec(ctx, "true", environment.ExecOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("a proper call")

	started := make(chan struct{})
	var once sync.Once
	go func() {
		<-started
		_ = env.CopyTo(ctx, environment.Copy{Src: opening{func() { _, _ = env.Exec(ctx, "true", environment.ExecOptions{}) }}, Dst: "/d"})
		_ = env.Stop(ctx)
	}()
	_, err := env.Exec(ctx, "echo; sleep 300", environment.ExecOptions{Stdout: writerFunc(func([]byte) { once.Do(func() { close(started) }) })})
	if environment.KindOf(err) != environment.KindLost {
		t.Errorf("Exec of a stopped environment: %v", err)
	}
	expect("two calls at once", "Exec of fake-000001 during its CopyTo")

	_, _ = env.Exec(ctx, "true", environment.ExecOptions{})
	expect("a command after stop", "Exec of fake-000001, which has been stopped")
	_ = env.Destroy(ctx)
	_ = env.CopyTo(ctx)
	expect("a copy after destroy", "CopyTo of fake-000001, which is gone")

	create(t, p, "left over")
	kept := create(t, p, "kept")
	if err := kept.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	expect("closing too early", "fake-000002 (left over), which was never destroyed")
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

// TestScriptedWorldsOfTheFake: providers of one world see each other's environments and images,
// others do not.
func TestScriptedWorldsOfTheFake(t *testing.T) {
	world := fake.NewWorld()
	a, b, stranger := fake.New(fake.Options{World: world}), fake.New(fake.Options{World: world}), fake.New(fake.Options{World: fake.NewWorld()})
	env := create(t, a, "a")
	ref, err := a.BuildImage(ctx, environment.BuildOptions{Name: "my task", Context: fstest.MapFS{"Dockerfile": {Data: []byte("FROM x\nRUN echo made > /made\n")}}})
	if err != nil || !strings.HasPrefix(ref, "fake.local/my-task:") {
		t.Fatalf("built %q, %v", ref, err)
	}
	if list, _ := b.List(ctx); len(list) != 1 || list[0].ID != env.ID() {
		t.Errorf("the other provider lists %v", list)
	}
	if list, _ := stranger.List(ctx); len(list) != 0 {
		t.Errorf("the stranger lists %v", list)
	}
	if _, err := b.CreateEnvironment(ctx, environment.CreateOptions{Image: ref}); err != nil {
		t.Errorf("the other provider does not know the image: %v", err)
	}
	if _, err := stranger.CreateEnvironment(ctx, environment.CreateOptions{Image: ref}); environment.KindOf(err) != environment.KindStart {
		t.Errorf("the stranger knows the image: %v", err)
	}
	if err := b.Remove(ctx, env.ID()); err != nil {
		t.Fatal(err)
	}
}

// TestManyEnvironmentsRunConcurrently lets many environments of one provider run all methods
// concurrently.
func TestManyEnvironmentsRunConcurrently(t *testing.T) {
	p := fake.New(fake.Options{World: fake.NewWorld(), Complain: func(c string) { t.Error(c) }})
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			env := create(t, p, fmt.Sprint(i))
			script := "for i in 1 2 3; do (echo $i >> /log; bash -c 'echo child >> /log') & done; wait; wc -l < /log; sleep 300 & true"
			out, code := run(t, env, script, environment.ExecOptions{})
			if out != "6\n" || code != 0 {
				t.Errorf("environment %d: %q, exit code %d", i, out, code)
			}
			if err := env.Destroy(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if list, err := p.List(ctx); err != nil || len(list) > 0 {
		t.Errorf("left over: %v, %v", list, err)
	}
}

// opening is an empty file system that calls a function when a file is opened.
type opening struct{ call func() }

func (o opening) Open(name string) (fs.File, error) {
	o.call()
	return fstest.MapFS{}.Open(name)
}
