package docker

import (
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/docker/docker/api/types/image"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/registryimage"
)

// builtBy returns Images that build with a provider's engine.
func builtBy(t *testing.T, p *Provider, r *localRegistry, platform string) *registryimage.Images {
	t.Helper()
	images, err := registryimage.New(registryimage.Config{
		Registry: r.host + "/evals", Platform: platform, Builders: []registryimage.Builder{&imageBuilder{p: p}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return images
}

func builds(dockerfile string) environment.BuildOptions {
	return environment.BuildOptions{Name: "docker-test", Context: fstest.MapFS{
		"Dockerfile": {Data: []byte(dockerfile), Mode: 0o644}, "file": {Data: []byte("content"), Mode: 0o600},
	}}
}

func TestImageBuilderPushesWhatItBuilds(t *testing.T) {
	t.Parallel()
	eachBuilder(t, func(t *testing.T, p *Provider) {
		r := newRegistry(t, p)
		images := builtBy(t, p, r, p.platform())
		opts := builds("FROM " + testImage + "\n# " + time.Now().String() + "\nRUN rm /etc/issue && echo x > /made\nCOPY file /file\nENTRYPOINT [\"/usr/bin/env\"]\nUSER nobody\n")
		var lines []string
		opts.Progress = func(line string) { lines = append(lines, line) }
		ref, err := images.Build(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		all, err := p.api.ImageList(t.Context(), image.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range all {
			for _, tag := range i.RepoTags {
				if strings.HasPrefix(tag, r.host+"/") {
					t.Errorf("the engine has kept the name %s", tag)
				}
			}
		}
		if got := strings.Join(lines, "\n"); !strings.Contains(got, "RUN rm /etc/issue") || !strings.Contains(got, "pushing "+r.host+"/evals/docker-test:") {
			t.Errorf("progress:\n%s", got)
		}
		about, err := images.Config(t.Context(), ref)
		if err != nil || about.User != "nobody" || strings.Join(about.Entrypoint, " ") != "/usr/bin/env" {
			t.Errorf("%+v, %v", about, err)
		}
		parsed, err := name.ParseReference(ref)
		if err != nil {
			t.Fatal(err)
		}
		img, err := remote.Image(parsed)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Image(img, validate.Fast); err != nil {
			t.Error(err)
		}
		if err := p.PullImage(t.Context(), ref, nil); err != nil { // the reference can be pulled
			t.Fatal(err)
		}
		forget(t, p, ref)
		env := newEnvironment(t, p, environment.CreateOptions{Image: ref})
		if got := run(t, env, "cat /made; test ! -e /etc/issue && id -un"); got != "x\nnobody\n" {
			t.Errorf("in the image: %q", got)
		}
		again, err := builtBy(t, p, r, p.platform()).Build(t.Context(), opts)
		if again != ref || err != nil {
			t.Errorf("again: %s, %v, want %s", again, err, ref)
		}
	})
}

func TestImageBuilderErrors(t *testing.T) {
	t.Parallel()
	eachBuilder(t, func(t *testing.T, p *Provider) {
		r := newRegistry(t, p)
		build := func(dockerfile string) error {
			_, err := builtBy(t, p, r, p.platform()).Build(t.Context(), builds(dockerfile))
			return err
		}
		err := build("FROM " + testImage + "\n# " + t.Name() + "\nRUN echo why >&2; exit 3\n")
		known := new(environment.Error)
		if !errors.As(err, &known) || known.Kind != environment.KindBuild || known.Transient || !strings.Contains(known.Output, "why") || !strings.Contains(known.Err.Error(), "Dockerfile:3") {
			t.Errorf("a command that fails: %+v", err)
		}
		made := "FROM " + testImage + "\n# " + t.Name() + "\nENV A=b\n"
		for _, tc := range []struct {
			status    int
			transient bool
			is        error
			says      string
		}{
			{http.StatusForbidden, false, fs.ErrPermission, "403 Forbidden"},
			{http.StatusTooManyRequests, true, nil, "429 Too Many Requests"},
		} {
			// The registry accepts the first request to push, and nothing from the engine.
			r.before.Store(ptr(func(w http.ResponseWriter, req *http.Request) bool {
				refuses := req.Method == http.MethodPut && strings.Contains(req.URL.Path, "/manifests/") ||
					req.Method == http.MethodPost && (strings.Contains(req.URL.Path, "/docker-test/") || strings.HasPrefix(req.UserAgent(), "docker/") || r.tried.Add(1) > 1)
				if refuses {
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(tc.status)
				}
				return refuses
			}))
			r.tried.Store(0)
			err := build(made)
			if environment.KindOf(err) != environment.KindPull || environment.IsTransient(err) != tc.transient || tc.is != nil && !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%d: kind %q, transient %t: %v", tc.status, environment.KindOf(err), environment.IsTransient(err), err)
			}
		}
		r.before.Store(nil)
	})
}

func TestImageBuilderForAnotherPlatform(t *testing.T) {
	t.Parallel()
	eachBuilder(t, func(t *testing.T, p *Provider) {
		r := newRegistry(t, p)
		other := "linux/arm64"
		if p.platform() == other {
			other = "linux/amd64"
		}
		images := builtBy(t, p, r, other)
		_, about, err := images.Builder(t.Context())
		if !*p.buildkit {
			if environment.KindOf(err) != environment.KindUnavailable || !strings.Contains(err.Error(), "has no BuildKit") {
				t.Errorf("the classic builder: %v", err)
			}
			return
		}
		if err != nil || !strings.Contains(about, "emulate "+other) {
			t.Fatalf("%q, %v", about, err)
		}
		ref, err := images.Build(t.Context(), builds("FROM scratch\n# "+time.Now().String()+"\nCOPY file /file\n"))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := images.Config(t.Context(), ref); err != nil || got.Platform != other {
			t.Errorf("%+v, %v", got, err)
		}
	})
}
