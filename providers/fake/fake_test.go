package fake_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/providers/fake"
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

// TestFail: each operation fails when and as it is told, and leaves nothing behind.
func TestFail(t *testing.T) {
	busy := &environment.Error{Kind: environment.KindUnavailable, Transient: true, Err: errors.New("busy")}
	var asked []string
	p := fake.New(fake.Options{World: fake.NewWorld(), Fail: func(op string, n int) error {
		asked = append(asked, fmt.Sprintf("%s %d", op, n))
		if n == 1 {
			return busy
		}
		return nil
	}})
	twice := func(op string, do func() error) {
		t.Helper()
		if err := do(); !errors.Is(err, busy) {
			t.Errorf("%s fails with %v, want %v", op, err, busy)
		}
		if err := do(); err != nil {
			t.Errorf("%s, the second time: %v", op, err)
		}
	}
	image := fstest.MapFS{"Dockerfile": {Data: []byte("FROM x\n")}}
	twice("build", func() error { _, err := p.BuildImage(ctx, environment.BuildOptions{Context: image}); return err })
	twice("pull", func() error { return p.PullImage(ctx, "x", nil) })
	var env environment.Environment
	twice("create", func() (err error) {
		env, err = p.CreateEnvironment(ctx, environment.CreateOptions{Image: "x"})
		return err
	})
	if list, err := p.List(ctx); err != nil || len(list) != 1 {
		t.Errorf("listed: %v, %v, want the one that was created", list, err)
	}
	twice("exec", func() error { _, err := env.Exec(ctx, "true", environment.ExecOptions{}); return err })
	twice("copy_to", func() error { return env.CopyTo(ctx) })
	twice("copy_from", func() error {
		_, err := env.CopyFrom(ctx, "/etc", t.TempDir(), environment.ExtractOptions{})
		return err
	})
	twice("stop", func() error { return env.Stop(ctx) })
	twice("destroy", func() error { return env.Destroy(ctx) })
	want := "build 1,build 2,pull 1,pull 2,create 1,create 2,exec 1,exec 2,copy_to 1,copy_to 2,copy_from 1,copy_from 2,stop 1,stop 2,destroy 1,destroy 2"
	if got := strings.Join(asked, ","); got != want {
		t.Errorf("asked for %s\nwant %s", got, want)
	}
}

// TestComplaints: whoever breaks the rules of the contract is told so.
func TestComplaints(t *testing.T) {
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
		_ = env.CopyTo(ctx)
		_ = env.Stop(ctx)
	}()
	_, err := env.Exec(ctx, "echo; sleep 300", environment.ExecOptions{Stdout: writerFunc(func([]byte) { once.Do(func() { close(started) }) })})
	if environment.KindOf(err) != environment.KindLost {
		t.Errorf("Exec of a stopped environment: %v", err)
	}
	expect("two calls at once", "copy_to of fake-000001 while its exec is under way")

	_, _ = env.Exec(ctx, "true", environment.ExecOptions{})
	expect("a command after stop", "exec of fake-000001, which has been stopped")
	_ = env.Destroy(ctx)
	_ = env.CopyTo(ctx)
	expect("a copy after destroy", "copy_to of fake-000001, which is gone")

	create(t, p, "left over")
	kept := create(t, p, "kept")
	if err := kept.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if left := p.Leaked(); !slices.Equal(left, []string{"fake-000002 (left over)"}) {
		t.Errorf("Leaked() = %q", left)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	expect("closing too early", "never destroyed: fake-000002 (left over)")
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

// TestWorlds: providers of one world see each other's environments and images, others do not.
func TestWorlds(t *testing.T) {
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
	if left := a.Leaked(); len(left) > 0 {
		t.Errorf("removed, and leaked all the same: %v", left)
	}
}

// TestImages: which references exist can be said.
func TestImages(t *testing.T) {
	for _, tt := range []struct {
		images []string
		ref    string
		exists bool
	}{
		{nil, "python:3.12", true},
		{nil, "missing/python", false},
		{nil, "", false},
		{nil, "fake.local/x:0123", false},
		{[]string{"one"}, "one", true},
		{[]string{"one"}, "two", false},
		{[]string{}, "one", false},
	} {
		p := fake.New(fake.Options{World: fake.NewWorld(), Images: tt.images})
		if err := p.PullImage(ctx, tt.ref, nil); (err == nil) != tt.exists {
			t.Errorf("images %q: pulling %q: %v", tt.images, tt.ref, err)
		}
	}
}

func TestOnExec(t *testing.T) {
	var seen []string
	p := fake.New(fake.Options{World: fake.NewWorld(), OnExec: func(labels environment.Labels, script string, opts environment.ExecOptions) {
		seen = append(seen, labels.Trial+": "+script+" as "+opts.User)
	}})
	env := create(t, p, "a")
	if _, err := env.Exec(ctx, "true", environment.ExecOptions{User: "nobody"}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(seen, []string{"a: true as nobody"}) {
		t.Errorf("seen %q", seen)
	}
}

func TestCheck(t *testing.T) {
	if problems := fake.Check(nil); len(problems) > 0 {
		t.Errorf("no configuration: %v", problems)
	}
	problems := fake.Check(map[string]any{"b": 1, "a": nil})
	if len(problems) != 2 || problems[0].Path != "a" || problems[0].Message != `unknown key "a"` || problems[0].Hint == "" {
		t.Errorf("problems %+v", problems)
	}
}

// TestStorageIsGivenBack: what is removed, cut or replaced can be written again; what an image brought
// does not count.
func TestStorageIsGivenBack(t *testing.T) {
	env := newEnvironment(t, func(o *environment.CreateOptions) { o.Limits.Storage = 1 << 20 })
	for _, script := range []string{
		"head -c 1000000 /dev/zero > a", "head -c 1000000 /dev/zero > a", "rm a; head -c 1000000 /dev/zero > b", "truncate -s 0 b; head -c 1000000 /dev/zero > c",
		"rm c; mkdir d; head -c 1000000 /dev/zero > d/e; rm -r d; truncate -s 1G hole", "head -c 1000000 /dev/zero > f; mv f hole", "rm -r /etc; head -c 40000 /dev/zero > g",
	} {
		if out, code := run(t, env, script, environment.ExecOptions{}); code != 0 {
			t.Errorf("%s: exit code %d: %s", script, code, out)
		}
	}
	if out, code := run(t, env, "head -c 1000000 /dev/zero | tee h | wc -c; ls -l h | cut -d' ' -f5", environment.ExecOptions{}); code == 0 && out == "1000000\n1000000\n" {
		t.Error("two million bytes fit into one")
	}
}

// TestAtOnce lets many environments of one provider do everything at the same time.
func TestAtOnce(t *testing.T) {
	p := fake.New(fake.Options{World: fake.NewWorld(), Complain: func(c string) { t.Error(c) }})
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			env := create(t, p, fmt.Sprint(i))
			script := "for i in 1 2 3; do (echo $i >> /log; bash -c 'echo p$$ >> /log') & done; wait; sort -u /log | wc -l; sleep 300 & true"
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
