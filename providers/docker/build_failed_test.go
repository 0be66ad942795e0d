package docker

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	cerrdefs "github.com/containerd/errdefs"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/buildcontext"
	"github.com/org/rollout-action/providers/internal/buildkit"
)

// The error of a failed step has its line in the Dockerfile and its output, without the output of
// other steps.
func TestAFailedBuildShowsItsCause(t *testing.T) {
	t.Parallel()
	eachBuilder(t, func(t *testing.T, p *Provider) {
		long := strings.Repeat("true && ", 200)
		_, err := p.BuildImage(t.Context(), environment.BuildOptions{Name: "docker-test", Context: fstest.MapFS{"Dockerfile": {Data: []byte(
			"# a comment\nFROM " + testImage + "\n# " + t.Name() + "\nRUN for i in $(seq 60); do echo noise $i; done\n\n" +
				"RUN " + long + "\\\n    for i in $(seq 60); do echo step $i; done && sleep 1 && \\\n    echo 'E: Unable to locate package nonesuch' >&2 && exit 100\n")}}})
		known := new(environment.Error)
		if !errors.As(err, &known) || known.Kind != environment.KindBuild || known.Transient {
			t.Fatalf("%+v", err)
		}
		if text := known.Err.Error(); !strings.Contains(text, "Dockerfile:6: RUN true && true") || !strings.HasSuffix(text, "…: exit code 100") || len(text) > 160 {
			t.Errorf("the error is %q", text)
		}
		if !strings.HasSuffix(known.Output, "\nE: Unable to locate package nonesuch") || strings.Contains(known.Output, "noise") || !strings.Contains(known.Output, "step 60") {
			t.Errorf("the output is %q", known.Output)
		}
	})
}

// engineSays is an error of the engine's API.
type engineSays struct{ error }

func TestEngineFailuresAreNotBuildFailures(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	for _, tc := range []struct {
		name      string
		err       error
		kind      environment.Kind
		transient bool
		says      string
	}{
		{"a full disk", engineSays{errors.New("failed to register layer: write /x: no space left on device")}, environment.KindUnavailable, false, "docker system df"},
		{"an error of the engine", fmt.Errorf("it broke: %w", cerrdefs.ErrInternal), environment.KindUnavailable, true, "its own log"},
		{"an engine that is overloaded", fmt.Errorf("later: %w", cerrdefs.ErrUnavailable), environment.KindUnavailable, true, "its own log"},
		{"a connection that is lost", errLost, environment.KindUnavailable, true, ""},
		{"a file that is not in the context", errors.New("\"/nofile\" not found"), environment.KindBuild, false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req := buildRequest{tag: "x", content: buildcontext.Definition{Dockerfile: []byte("FROM scratch\n")}}
			err := p.buildFailed(t.Context(), req, &buildkit.Lines{}, tc.err)
			if environment.KindOf(err) != tc.kind || environment.IsTransient(err) != tc.transient || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("kind %q, transient %t, want %q, %t with %q: %v", environment.KindOf(err), environment.IsTransient(err), tc.kind, tc.transient, tc.says, err)
			}
		})
	}
}
