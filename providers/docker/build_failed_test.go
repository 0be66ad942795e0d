package docker

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	cerrdefs "github.com/containerd/errdefs"

	"github.com/moby/buildkit/frontend/dockerfile/parser"

	"github.com/org/rollout-action/internal/environment"
)

// A failed step says where it stands in the Dockerfile, and what it printed, whatever else was printed meanwhile.
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
			req := buildRequest{tag: "x", content: buildContext{dockerfile: []byte("FROM scratch\n")}}
			err := p.buildFailed(t.Context(), req, &lines{}, tc.err)
			if environment.KindOf(err) != tc.kind || environment.IsTransient(err) != tc.transient || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("kind %q, transient %t, want %q, %t with %q: %v", environment.KindOf(err), environment.IsTransient(err), tc.kind, tc.transient, tc.says, err)
			}
		})
	}
}

func TestLineOfStep(t *testing.T) {
	const one = "ARG A=1\nFROM a\n\nENV X=1\nRUN one \\\n  two\nWORKDIR /x\nCOPY a b\n"
	const many = "FROM a AS first\nRUN one\nFROM b\nRUN two\nfrom first as third\nRUN three\n"
	for _, tc := range []struct {
		dockerfile, step string
		want             int
	}{
		{one, "[1/4] FROM docker.io/a", 2},
		{one, "[2/4] RUN one   two", 5},
		{one, "[4/4] COPY a b", 8},
		{one, "[4/4] RUN a b", 0},
		{one, "[internal] load build context", 0},
		{one, "", 0},
		{many, "[first 2/2] RUN one", 2},
		{many, "[stage-1 2/2] RUN two", 4},
		{many, "[third 2/2] RUN three", 6},
		{many, "[fourth 2/2] RUN three", 0},
		{many, "[99999999999999999999 2/2] RUN x", 0},
	} {
		parsed, err := parser.Parse(strings.NewReader(tc.dockerfile))
		if err != nil {
			t.Fatal(err)
		}
		if got := lineOfStep(parsed.AST.Children, tc.step); got != tc.want {
			t.Errorf("%q of\n%s\nis line %d, want %d", tc.step, tc.dockerfile, got, tc.want)
		}
	}
}
