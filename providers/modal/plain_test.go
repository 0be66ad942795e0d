package modal

import (
	"errors"
	"math"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/buildcontext"
)

func TestCheckReportsEveryProblem(t *testing.T) {
	problems := Check(map[string]any{
		"app_name": "with space", "region": "us-east", "regions": []any{"eu", 1}, "verbose": "yes", "registry": "x", "price": map[string]any{"core": 1, "gib_hour": -1}, "apps": 1,
	})
	var got []string
	for _, p := range problems {
		got = append(got, p.Path)
	}
	if want := "app_name apps price.core price.gib_hour regions regions.1 registry verbose"; strings.Join(got, " ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, " "), want)
	}
	if problems := Check(map[string]any{"app_name": "rollout-my-app", "regions": []any{"us-east", "us-west"}, "verbose": true}); len(problems) != 0 {
		t.Errorf("the specification's example: %v", problems)
	}
}

func TestPriceOfWhatWasAskedFor(t *testing.T) {
	hour := func(l environment.Limits, p price) float64 { return math.Round(p.of(l, time.Hour)*1e4) / 1e4 }
	own := 2.0
	for _, tc := range []struct {
		limits environment.Limits
		price  price
		want   float64
	}{
		{environment.Limits{MilliCPUs: 2000, Memory: 4 << 30}, price{}, 0.3806},
		{environment.Limits{}, price{}, 0.0208},
		{environment.Limits{MilliCPUs: 1000, Memory: 1 << 30, GPUs: 2, GPUTypes: "h100"}, price{}, 8.0645},
		{environment.Limits{MilliCPUs: 1000, Memory: 1 << 30}, price{coreHour: &own, gibHour: &own}, 4},
	} {
		if got := hour(tc.limits, tc.price); got != tc.want {
			t.Errorf("%+v: %g, want %g", tc.limits, got, tc.want)
		}
	}
}

func TestDockerfilesThatNeedABuilder(t *testing.T) {
	large := fstest.MapFS{"f": {Data: []byte(strings.Repeat("x", 10))}}
	for dockerfile, why := range map[string]string{
		"FROM a AS b\nFROM c\n":                           "a second stage",
		"FROM scratch\n":                                  "scratch",
		"FROM a\nADD f /f\n":                              "ADD",
		"FROM a\nCOPY --chown=1 f /f\n":                   "COPY with options",
		"FROM a\nRUN --mount=type=cache,target=/c true\n": "RUN with options",
		"FROM a\nUSER nobody\nRUN true\n":                 "RUN as the user nobody",
		"FROM a\nRUN <<E\ntrue\nE\n":                      "here-document",
	} {
		files := fstest.MapFS{"Dockerfile": {Data: []byte(dockerfile)}, "f": large["f"]}
		definition, err := buildcontext.Read(files)
		if err != nil {
			t.Fatal(err)
		}
		_, err = plan(t.Context(), definition, nil, nil)
		if unfit := new(unfitError); !errors.As(err, &unfit) || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want %q", dockerfile, err, why)
		}
	}
}
