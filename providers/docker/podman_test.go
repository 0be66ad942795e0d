package docker

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/jsonmessage"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/buildkit"
)

// podmanAPI is an engine that answers as Podman 4.3 does.
func podmanAPI(t *testing.T, routes map[string]http.HandlerFunc) *Provider {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(podmanHeader, "4.3.1")
		w.Header().Set("Api-Version", "1.41")
		for path, answer := range routes {
			if strings.HasSuffix(r.URL.Path, path) {
				answer(w, r)
				return
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"ServerVersion":"4.3.1","SecurityOptions":["name=seccomp,profile=default"]}`)
	}))
	t.Cleanup(server.Close)
	t.Setenv("DOCKER_HOST", "tcp://"+server.Listener.Addr().String())
	p, err := New(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func TestPodmanIsNamed(t *testing.T) {
	p := podmanAPI(t, nil)
	if got := p.Describe(); !strings.HasPrefix(got, "Podman 4.3.1 at tcp://") {
		t.Error(got)
	}
	if got := p.securityOptions(); got != nil {
		t.Errorf("an engine elsewhere, which cannot read our file, gets %d options", len(got))
	}
}

// Podman answers 500 to what Docker answers 409 to.
func TestStopOfAPodmanContainerThatHasEnded(t *testing.T) {
	p := podmanAPI(t, map[string]http.HandlerFunc{"/kill": func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, `{"cause":"container state improper","message":"can only kill running containers","response":500}`)
	}})
	if err := (&containerEnv{p: p, id: strings.Repeat("a", 64)}).Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// Podman follows a symbolic link that it is asked for, also one that leads nowhere.
func TestLinksOfPodmanContainersAreNotFollowed(t *testing.T) {
	p := podmanAPI(t, map[string]http.HandlerFunc{"/archive": func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodHead {
			t.Errorf("%s follows the link", r.Method)
		}
		w.Header().Set(statHeader, "eyJuYW1lIjoicGFzc3dkIiwic2l6ZSI6MTEsIm1vZGUiOjEzNDIxODIzOSwibGlua1RhcmdldCI6Ii9ldGMvcGFzc3dkIn0=")
		w.WriteHeader(http.StatusNotFound)
	}})
	out, err := (&containerEnv{p: p, id: strings.Repeat("a", 64)}).CopyFrom(t.Context(), "/logs/link", t.TempDir(), environment.ExtractOptions{})
	if err != nil || len(out.Omitted) != 1 || out.Files != 0 {
		t.Errorf("%+v, %v", out, err)
	}
}

// Podman has no other way to say that a copy failed than to end it: a file may have changed. The
// container is not lost.
func TestACopyThatIsCutIsNoLostContainer(t *testing.T) {
	p := podmanAPI(t, map[string]http.HandlerFunc{"/json": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"State":{"Running":true}}`)
	}, "/archive": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(statHeader, base64.StdEncoding.EncodeToString([]byte(`{"name":"log","size":1000,"mode":420}`)))
		w.Header().Set("Content-Type", "application/x-tar")
		archive := tar.NewWriter(w)
		_ = archive.WriteHeader(&tar.Header{Name: "log", Mode: 0o644, Size: 1000})
		_, _ = archive.Write(make([]byte, 500))
	}})
	_, err := (&containerEnv{p: p, id: strings.Repeat("a", 64)}).CopyFrom(t.Context(), "/logs/log", t.TempDir(), environment.ExtractOptions{})
	var failed *environment.Error
	if !errors.As(err, &failed) || failed.Kind != environment.KindCopy || !failed.Transient {
		t.Errorf("%v is %+v, want a copy that may be repeated", err, failed)
	}
}

// A check that fails is answered with 500, and counts each time.
func TestMissedHealthChecksRunOnce(t *testing.T) {
	asked := 0
	p := podmanAPI(t, map[string]http.HandlerFunc{"/healthcheck": func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.WriteHeader(http.StatusInternalServerError)
	}})
	checks := healthChecks{since: time.Now().Add(-time.Hour)}
	checks.runMissed(t.Context(), p, container.InspectResponse{
		ContainerJSONBase: &container.ContainerJSONBase{ID: "a", State: &container.State{Health: &container.Health{Status: container.Starting}}},
		Config:            &container.Config{Healthcheck: &container.HealthConfig{Interval: time.Second}},
	})
	if asked != 1 {
		t.Errorf("it was asked for %d times, want once", asked)
	}
}

// Podman reads no configuration of an image from a request to commit.
func TestPodmanCommitsLabelsAsInstructions(t *testing.T) {
	var asked []string
	p := podmanAPI(t, map[string]http.HandlerFunc{"/commit": func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Query()["changes"]
		_ = json.NewEncoder(w).Encode(container.CommitResponse{ID: "x"})
	}})
	_, err := commit(t.Context(), p, "a", container.CommitOptions{Config: &container.Config{
		Labels: map[string]string{"b": "two\nlines", "a": `{"x":"y z"}`}, Env: []string{"SECRET="},
	}})
	if got, want := strings.Join(asked, "|"), `LABEL a={"x":"y z"}|LABEL b=two lines|ENV SECRET=`; err != nil || got != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

func TestPodmanStepsAndExitCodes(t *testing.T) {
	lines := buildkit.Lines{Steps: true}
	lines.Text("STEP 1/2: FROM debian:bookworm\nSTEP 2/2: RUN false\nbroken\n")
	err := &jsonmessage.JSONError{Message: "building at STEP \"RUN false\": while running runtime: exit status 7\n"}
	if at := buildkit.FailedLine([]byte("FROM debian:bookworm\n\nRUN false\n"), &lines, err); at != 3 || lines.Tail() != "broken" || buildkit.ExitCode(err) != 7 {
		t.Errorf("line %d, tail %q, code %d", at, lines.Tail(), buildkit.ExitCode(err))
	}
	lines.Text("[1/2] STEP 2/2: RUN true\n")
	if at := buildkit.FailedLine([]byte("FROM a\nRUN true\n"), &lines, err); at != 0 {
		t.Errorf("line %d of a stage that is not known", at)
	}
}

func TestSeccompProfileIsInAFile(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	name, err := writeProfile()
	if err != nil {
		t.Fatal(err)
	}
	if held, err := os.ReadFile(name); err != nil || !bytes.Equal(held, []byte(seccomp())) {
		t.Errorf("%d bytes, %v", len(held), err)
	}
	if again, err := writeProfile(); again != name || err != nil {
		t.Errorf("the next run has %s, %v", again, err)
	}
}

// Without systemd, nothing runs the health checks of Podman's containers. A container without a
// health check has an empty state of health.
func TestHealthOfPodmanContainers(t *testing.T) {
	health := `{"Status":"starting","Log":null}`
	p := podmanAPI(t, map[string]http.HandlerFunc{
		"/containers/checked/json": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"Id":"checked","State":{"Status":"running","Running":true,"Health":`+health+`},"Config":{"Healthcheck":{"Test":["CMD","true"],"Interval":1}}}`)
		},
		"/libpod/containers/checked/healthcheck": func(w http.ResponseWriter, _ *http.Request) {
			health = `{"Status":"healthy"}`
			_, _ = io.WriteString(w, health)
		},
		"/containers/unchecked/json": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"Id":"unchecked","State":{"Status":"running","Running":true,"Health":{"Status":"","Log":null}},"Config":{}}`)
		},
	})
	p.podman.Store(true)
	for name, state := range map[string]environment.Condition{"checked": environment.ServiceHealthy, "unchecked": settled} {
		m := &member{Service: environment.Service{Name: name}, env: &containerEnv{p: p, id: name}}
		if err := (&group{p: p}).await(t.Context(), m, state); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
