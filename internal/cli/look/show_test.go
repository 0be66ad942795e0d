package look

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/result"
)

// A trial's steps are listed with their outcomes, and so is the second environment of its tests.
func TestStepsOfATrial(t *testing.T) {
	began := time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)
	half := 0.5
	trial := result.Trial{
		Environment: &result.Environment{Provider: "docker", Verifier: &result.VerifierEnvironment{Image: "tests:1"}},
		Steps: []result.StepRun{
			{Name: "build", Reward: &half, StartedAt: began, EndedAt: began.Add(12 * time.Second), Unmet: "score\x1b[31m is 0.5, and must be at least 1"},
			{Name: "extend", StartedAt: began, EndedAt: began.Add(time.Minute), Error: &result.Error{Type: result.VerifierTimeout, Message: "it took too long"}},
		},
	}
	var out bytes.Buffer
	writeOutcome(&out, trial)
	for _, want := range []string{
		"Step build: 0.5 in 12.0s: score is 0.5, and must be at least 1\n", "Step extend: no reward in 1m00s: verifier_timeout\n", "  the tests ran in another one, image tests:1\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

func TestLogsAreMadeSafeLineByLine(t *testing.T) {
	var out bytes.Buffer
	w := &lineWriter{to: &out}
	long := strings.Repeat("x", 3*maxLogLine+5)
	for _, piece := range []string{"a\x1b[31", "mb\n::error", "::c\n\n", long, "\nend"} {
		if n, err := w.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
		if cap(w.rest) > 2*maxLogLine {
			t.Fatalf("%d bytes of memory", cap(w.rest))
		}
	}
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	full := strings.Repeat("x", maxLogLine) + "\n"
	if want := "ab\n: :error::c\n\n" + full + full + full + "xxxxx\nend\n"; out.String() != want {
		t.Errorf("%.100q (%d bytes), want %.100q (%d bytes)", out.String(), out.Len(), want, len(want))
	}
}
