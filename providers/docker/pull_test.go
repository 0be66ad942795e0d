package docker

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/image"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/org/rollout-action/internal/core/environment"
)

// localRegistry is a registry on the loopback interface, which engines accept without TLS. before
// sees each request of a pull and may answer it.
type localRegistry struct {
	host      string
	manifests atomic.Int64 // requests for one
	tried     atomic.Int64 // for tests to count
	before    atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
}

func newRegistry(t *testing.T, p *Provider) *localRegistry {
	t.Helper()
	if !strings.HasPrefix(p.api.DaemonHost(), "unix://") {
		t.Skip("the engine is on another machine, which cannot reach a registry on this one's loopback interface")
	}
	r := &localRegistry{}
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if before := r.before.Load(); before != nil && (*before)(w, req) {
			return
		}
		if strings.Contains(req.URL.Path, "/manifests/") && req.Method == http.MethodGet {
			r.manifests.Add(1)
		}
		inner.ServeHTTP(w, req)
	}))
	t.Cleanup(server.Close)
	r.host = strings.TrimPrefix(server.URL, "http://")
	return r
}

// push puts an image into the registry and returns its reference; the engine forgets it at the end.
func (r *localRegistry) push(t *testing.T, p *Provider, repository string) string {
	t.Helper()
	ref, err := name.ParseReference(r.host + "/" + repository)
	if err != nil {
		t.Fatal(err)
	}
	config, err := empty.Image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", p.info.Architecture
	config.Config.Labels = map[string]string{"for": t.Name()}
	made, err := mutate.ConfigFile(empty.Image, config)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, made); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = p.api.ImageRemove(context.Background(), ref.String(), image.RemoveOptions{Force: true})
	})
	return ref.String()
}

func TestPullImage(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	r := newRegistry(t, p)
	ref := r.push(t, p, "some/thing:1.0")

	t.Run("several pulls at once are one, and everyone sees its progress", func(t *testing.T) {
		hold := make(chan struct{})
		r.before.Store(ptr(func(http.ResponseWriter, *http.Request) bool {
			<-hold
			return false
		}))
		defer r.before.Store(nil)
		var lines [4]atomic.Int64
		var all sync.WaitGroup
		for i := range lines {
			all.Go(func() {
				err := p.PullImage(t.Context(), ref, func(string) { lines[i].Add(1) })
				if err != nil {
					t.Error(err)
				}
			})
		}
		for p.flights.Waiting() < len(lines) {
			time.Sleep(time.Millisecond)
		}
		close(hold)
		all.Wait()
		for i := range lines {
			if lines[i].Load() == 0 {
				t.Errorf("caller %d saw no progress", i)
			}
		}
	})
	t.Run("an image that is there is not fetched again", func(t *testing.T) {
		before := r.manifests.Load()
		if err := p.PullImage(t.Context(), ref, nil); err != nil {
			t.Fatal(err)
		}
		if r.manifests.Load() != before {
			t.Error("the registry was asked")
		}
	})
	t.Run("a tag that does not exist is not transient", func(t *testing.T) {
		wantPullError(t, p.PullImage(t.Context(), r.host+"/some/thing:nope", nil), false, "no such image")
	})
	t.Run("a repository that does not exist is not transient", func(t *testing.T) {
		wantPullError(t, p.PullImage(t.Context(), r.host+"/nothing/here:1", nil), false, "no such image")
	})
	t.Run("a reference that is none is not transient", func(t *testing.T) {
		wantPullError(t, p.PullImage(t.Context(), "No Such:Reference!", nil), false, "")
	})
	t.Run("a registry that fails is transient", func(t *testing.T) {
		r.before.Store(ptr(func(w http.ResponseWriter, _ *http.Request) bool {
			http.Error(w, "overloaded", http.StatusServiceUnavailable)
			return true
		}))
		defer r.before.Store(nil)
		wantPullError(t, p.PullImage(t.Context(), r.host+"/some/thing:2", nil), true, "")
	})
	t.Run("a registry that is down is transient", func(t *testing.T) {
		wantPullError(t, p.PullImage(t.Context(), "127.0.0.1:1/some/thing:1", nil), true, "cannot be reached")
	})
}

func ptr[T any](value T) *T { return &value }

func wantPullError(t *testing.T, err error, transient bool, hint string) {
	t.Helper()
	if environment.KindOf(err) != environment.KindPull {
		t.Fatalf("kind %q, want %q: %v", environment.KindOf(err), environment.KindPull, err)
	}
	if environment.IsTransient(err) != transient {
		t.Errorf("transient: %t, want %t: %v", !transient, transient, err)
	}
	if !strings.Contains(err.Error(), hint) {
		t.Errorf("error %q does not say %q", err, hint)
	}
}

func TestPullImageWithCredentials(t *testing.T) {
	p := newProvider(t, nil)
	r := newRegistry(t, p)
	ref := r.push(t, p, "private/thing:1.0")
	r.requirePassword()
	r.configure(t, "wrong")
	wantPullError(t, p.PullImage(t.Context(), ref, nil), false, "docker login")
	r.configure(t, "secret")
	if err := p.PullImage(t.Context(), ref, nil); err != nil {
		t.Error(err)
	}
}

// requirePassword turns away who is not ann with the password "secret".
func (r *localRegistry) requirePassword() {
	r.before.Store(ptr(func(w http.ResponseWriter, req *http.Request) bool {
		if user, password, _ := req.BasicAuth(); user == "ann" && password == "secret" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return true
	}))
}

// configure makes a Docker configuration with ann's password for the registry.
func (r *localRegistry) configure(t *testing.T, password string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("DOCKER_CONFIG", dir)
	auth := base64.StdEncoding.EncodeToString([]byte("ann:" + password))
	text := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, r.host, auth)
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
