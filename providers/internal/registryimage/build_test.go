package registryimage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/org/rollout-action/internal/core/environment"
)

// fakeBuilder pushes an image with one file.
type fakeBuilder struct {
	name, kind string
	unusable   error
	built      atomic.Int64
	build      func(context.Context, Request) (string, error) // nil: push hello
}

func (b *fakeBuilder) Name() string { return b.name }
func (b *fakeBuilder) Kind() string { return b.kind }
func (b *fakeBuilder) Close() error { return nil }

func (b *fakeBuilder) Check(context.Context, string) (string, error) {
	return "about " + b.name, b.unusable
}

func (b *fakeBuilder) Build(ctx context.Context, req Request) (string, error) {
	b.built.Add(1)
	if b.build != nil {
		return b.build(ctx, req)
	}
	req.Progress("building")
	return req.Push(ctx, PushOptions{Layers: []Layer{hello}, Change: func(s *Settings) { s.Env = []string{fmt.Sprint("N=", b.built.Load())} }})
}

// options returns a build of a Dockerfile.
func options(dockerfile string) environment.BuildOptions {
	return environment.BuildOptions{Name: "Task", Context: fstest.MapFS{"Dockerfile": {Data: []byte(dockerfile), Mode: 0o644}}}
}

func TestBuild(t *testing.T) {
	r := newRegistry(t)
	b := &fakeBuilder{name: Docker}
	c := r.config()
	c.Builders = []Builder{b}
	i := images(t, c)
	ref, err := i.Build(t.Context(), options("FROM a"))
	must(t, err)
	if !strings.HasPrefix(ref, r.host+"/evals/task@sha256:") || b.built.Load() != 1 {
		t.Fatalf("%s, built %d times", ref, b.built.Load())
	}
	if _, err := i.Config(t.Context(), ref); err != nil {
		t.Error(err)
	}
	for n, other := range []*Images{i, images(t, c)} { // this process and another
		r.forget()
		again, err := other.Build(t.Context(), options("FROM a"))
		if err != nil || again != ref || b.built.Load() != 1 {
			t.Errorf("%d: %s, %v, built %d times", n, again, err, b.built.Load())
		}
		if got := r.count("HEAD", "/manifests/"); got != 1 || r.count("P", "") != 0 {
			t.Errorf("%d: asked %v", n, r.requests)
		}
	}
	fresh := options("FROM a")
	fresh.NoCache = true
	replaced, err := i.Build(t.Context(), fresh)
	if err != nil || replaced == ref || b.built.Load() != 2 {
		t.Errorf("without cache: %s, %v, built %d times", replaced, err, b.built.Load())
	}
	if again, err := i.Build(t.Context(), options("FROM a")); again != replaced || err != nil {
		t.Errorf("afterwards: %s, %v, want %s", again, err, replaced)
	}
}

// What goes into an image is in its key, and nothing else.
func TestKeys(t *testing.T) {
	r := newRegistry(t)
	key := func(c Config, b *fakeBuilder, opts environment.BuildOptions) (target string) {
		b.build = func(ctx context.Context, req Request) (string, error) {
			target = req.Target
			return req.Push(ctx, PushOptions{})
		}
		c.Builders = []Builder{b}
		opts.NoCache = true
		_, err := images(t, c).Build(t.Context(), opts)
		must(t, err)
		return target
	}
	plain, arm := r.config(), r.config()
	arm.Platform = "linux/arm64"
	args := options("FROM a")
	args.Args = map[string]string{"A": "b"}
	file := options("FROM a")
	file.Context.(fstest.MapFS)["x"] = &fstest.MapFile{Data: []byte("x")}
	seen := map[string]string{}
	for name, target := range map[string]string{
		"nothing":    key(plain, &fakeBuilder{name: Docker}, options("FROM a")),
		"Dockerfile": key(plain, &fakeBuilder{name: Docker}, options("FROM b")),
		"arguments":  key(plain, &fakeBuilder{name: Docker}, args),
		"context":    key(plain, &fakeBuilder{name: Docker}, file),
		"platform":   key(arm, &fakeBuilder{name: Docker}, options("FROM a")),
		"kind":       key(plain, &fakeBuilder{name: Sandbox, kind: "sandbox 1"}, options("FROM a")),
	} {
		if other, ok := seen[target]; ok {
			t.Errorf("%s and %s have one key", name, other)
		}
		seen[target] = name
	}
	if again := key(plain, &fakeBuilder{name: Docker}, options("FROM a")); seen[again] != "nothing" {
		t.Errorf("the same has another key, that of %q", seen[again])
	}
}

func TestManyWantOneBuild(t *testing.T) {
	r := newRegistry(t)
	hold := make(chan struct{})
	b := &fakeBuilder{name: Docker}
	b.build = func(ctx context.Context, req Request) (string, error) {
		<-hold
		return req.Push(ctx, PushOptions{Layers: []Layer{hello}})
	}
	c := r.config()
	c.Builders = []Builder{b}
	i := images(t, c)
	var all sync.WaitGroup
	refs := make([]string, 8)
	for n := range refs {
		all.Go(func() {
			var err error
			if refs[n], err = i.Build(t.Context(), options("FROM a")); err != nil {
				t.Error(err)
			}
		})
	}
	for i.flights.Waiting() < len(refs) {
		time.Sleep(time.Millisecond)
	}
	close(hold)
	all.Wait()
	for _, ref := range refs {
		if ref != refs[0] || ref == "" {
			t.Errorf("the references are %v", refs)
		}
	}
	if b.built.Load() != 1 {
		t.Errorf("built %d times", b.built.Load())
	}
}

func TestBuildErrors(t *testing.T) {
	r := newRegistry(t)
	b := &fakeBuilder{name: Docker}
	c := r.config()
	c.Builders = []Builder{b}
	i := images(t, c)
	_, err := i.Build(t.Context(), environment.BuildOptions{Context: fstest.MapFS{}})
	wantError(t, err, environment.KindBuild, false, fs.ErrNotExist, "needs a Dockerfile")
	_, err = images(t, Config{Platform: "linux/amd64"}).Build(t.Context(), options("FROM a"))
	wantError(t, err, environment.KindUnavailable, false, nil, "environment.provider_config.registry")

	b.build = func(context.Context, Request) (string, error) { return "", nil }
	_, err = i.Build(t.Context(), options("FROM a"))
	wantError(t, err, environment.KindBuild, false, nil, "returns no digest")
	wrong := &environment.Error{Kind: environment.KindBuild, Err: errors.New("Dockerfile:1: no")}
	b.build = func(context.Context, Request) (string, error) { return "", wrong }
	if _, err = i.Build(t.Context(), options("FROM a")); !errors.Is(err, wrong) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	b.build = func(ctx context.Context, _ Request) (string, error) {
		cancel()
		<-ctx.Done()
		return "", ctx.Err()
	}
	if _, err = i.Build(ctx, options("FROM a")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// A registry that takes no images is found out before anything is built.
func TestBuildChecksFirstWhetherItCanPush(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		r := newRegistry(t)
		b := &fakeBuilder{name: Docker}
		c := r.config()
		c.Builders = []Builder{b}
		r.answers("POST", "/blobs/uploads/", status, status, status)
		_, err := images(t, c).Build(t.Context(), options("FROM a"))
		wantError(t, err, environment.KindPull, false, fs.ErrPermission, "docker login "+r.host)
		if b.built.Load() != 0 {
			t.Errorf("%d: it was built", status)
		}
	}
	t.Run("a registry that creates no repositories", func(t *testing.T) {
		r := newRegistry(t)
		b := &fakeBuilder{name: Docker}
		c := r.config()
		c.Builders = []Builder{b}
		i := images(t, c)
		hook := func(w http.ResponseWriter, req *http.Request) bool {
			if req.Method == http.MethodPost && !strings.Contains(req.URL.Path, "/there/") {
				http.NotFound(w, req)
				return true
			}
			return false
		}
		r.before.Store(&hook)
		must(t, i.CheckPush(t.Context()))
		_, err := i.Build(t.Context(), options("FROM a"))
		wantError(t, err, environment.KindPull, false, fs.ErrNotExist, "create evals/task there")
		there := options("FROM a")
		there.Name = "there"
		if _, err := i.Build(t.Context(), there); err != nil || b.built.Load() != 1 {
			t.Errorf("built %d times: %v", b.built.Load(), err)
		}
	})
	t.Run("a registry that does not answer HEAD as it should", func(t *testing.T) {
		r := newRegistry(t)
		b := &fakeBuilder{name: Docker}
		c := r.config()
		c.Builders = []Builder{b}
		hook := func(w http.ResponseWriter, req *http.Request) bool {
			if req.Method == http.MethodHead && strings.Contains(req.URL.Path, "/manifests/") {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return true
			}
			return false
		}
		ref, err := images(t, c).Build(t.Context(), options("FROM a"))
		must(t, err)
		r.before.Store(&hook)
		if again, err := images(t, c).Build(t.Context(), options("FROM a")); again != ref || err != nil || b.built.Load() != 1 {
			t.Errorf("%s, %v, want %s; built %d times", again, err, ref, b.built.Load())
		}
	})
	t.Run("a repository that does not exist may look forbidden", func(t *testing.T) {
		r := newRegistry(t)
		b := &fakeBuilder{name: Docker}
		c := r.config()
		c.Builders = []Builder{b}
		r.answers("HEAD", "/manifests/", 401, 401)
		if _, err := images(t, c).Build(t.Context(), options("FROM a")); err != nil || b.built.Load() != 1 {
			t.Errorf("built %d times: %v", b.built.Load(), err)
		}
	})
}

func TestBuilderIsTheFirstThatCanBeUsed(t *testing.T) {
	r := newRegistry(t)
	no := errors.New("there is none")
	for _, tc := range []struct {
		name, asked     string
		docker, sandbox error
		want, says      string
	}{
		{"docker before sandbox", "", nil, nil, Docker, ""},
		{"sandbox without docker", "", no, nil, Sandbox, ""},
		{"sandbox if asked for", Sandbox, nil, nil, Sandbox, ""},
		{"none", "", no, no, "", "docker: there is none; buildkit: environment.provider_config.buildkit names none; sandbox: there is none"},
		{"not the one that is asked for", Docker, no, nil, "", "used: docker: there is none"},
		{"no address", BuildKitDaemon, nil, nil, "", "buildkit: environment.provider_config.buildkit names none"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := r.config()
			c.Builder = tc.asked
			c.Builders = []Builder{&fakeBuilder{name: Sandbox, kind: "s", unusable: tc.sandbox}, &fakeBuilder{name: Docker, unusable: tc.docker}}
			name, about, err := images(t, c).Builder(t.Context())
			if tc.want == "" {
				wantError(t, err, environment.KindUnavailable, false, ErrNoBuilder, tc.says)
				return
			}
			if name != tc.want || about != "about "+tc.want || err != nil {
				t.Errorf("%q, %q, %v, want %s", name, about, err, tc.want)
			}
		})
	}
	t.Run("an image that is there needs none", func(t *testing.T) {
		c := r.config()
		c.Builders = []Builder{&fakeBuilder{name: Docker}}
		ref, err := images(t, c).Build(t.Context(), options("FROM there"))
		must(t, err)
		c.Builders = []Builder{&fakeBuilder{name: Docker, unusable: no}, &fakeBuilder{name: Sandbox, kind: "s", unusable: no}}
		if again, err := images(t, c).Build(t.Context(), options("FROM there")); again != ref || err != nil {
			t.Errorf("%q, %v, want %s", again, err, ref)
		}
		_, err = images(t, c).Build(t.Context(), options("FROM nowhere"))
		wantError(t, err, environment.KindUnavailable, false, ErrNoBuilder)
	})
}

// What a build would find out about its machines before it builds anything is known without it.
func TestCheckBuild(t *testing.T) {
	r := newRegistry(t)
	must(t, remote.Write(reference(t, r.host+"/arm"), imageFor(t, "linux/arm64")))
	must(t, remote.Write(reference(t, r.host+"/amd"), imageFor(t, "linux/amd64")))
	no := errors.New("there is none")
	usable := &fakeBuilder{name: Docker}
	with := func(b Builder) *Images {
		c := r.config()
		c.Builders = []Builder{b}
		return images(t, c)
	}
	_, err := with(usable).Build(t.Context(), options("FROM there"))
	must(t, err)
	for _, tc := range []struct {
		name, dockerfile string
		unusable, want   error
		says             string
	}{
		{"a base for the platform", "FROM {{host}}/amd", nil, nil, ""},
		{"a base for another platform", "FROM {{host}}/amd AS a\nFROM {{host}}/arm", nil, ErrPlatform, "base image: look for image " + r.host + "/arm"},
		{"a stage that may be for the machine that builds", "FROM --platform=$BUILDPLATFORM {{host}}/arm AS a\nFROM {{host}}/amd", nil, nil, ""},
		{"a base that cannot be read", "FROM {{host}}/none", nil, nil, ""},
		{"no builder", "FROM {{host}}/amd", no, ErrNoBuilder, "docker: there is none"},
		{"an image that is there needs none", "FROM there", no, nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := &fakeBuilder{name: Docker, unusable: tc.unusable}
			err := with(b).CheckBuild(t.Context(), options(strings.ReplaceAll(tc.dockerfile, "{{host}}", r.host)))
			if !errors.Is(err, tc.want) || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v, want %v: %q", err, tc.want, tc.says)
			}
			if b.built.Load() > 0 {
				t.Error("it was built")
			}
		})
	}
}
