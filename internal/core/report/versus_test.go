package report

import (
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/gate"
)

func TestComparedPairsSayWhatIsLeftOut(t *testing.T) {
	in := Input{Versus: []gate.Versus{{A: "a\nb", B: "c"}, {A: "d", B: "e"}, {A: "f", B: "g"}}}
	if pairs := in.ComparedPairs(3); len(pairs) != 3 || pairs[0].A != "a⏎b" || strings.Contains(pairs[2].Says, "JSON") {
		t.Errorf("%+v", pairs)
	}
	if pairs := in.ComparedPairs(1); len(pairs) != 1 || !strings.HasSuffix(pairs[0].Says, "The JSON report has 2 more pairs.") {
		t.Errorf("%+v", pairs)
	}
}

func TestLinesOfPairs(t *testing.T) {
	c := gate.Contrast{
		Measure: gate.MeasurePassRate, A: new(1.0), B: new(0.5), Difference: new(0.5), Adjusted: new(0.01), Outcome: gate.Higher,
		Interval: &gate.Interval{Low: 0.2, High: 0.8, Confidence: 0.95},
	}
	in := Input{Versus: []gate.Versus{{Contrasts: []gate.Contrast{c, {Measure: gate.MeasureTurns, Outcome: gate.Unknown, Missing: [2]int{3, 1}}}}}}
	want := "pass rate: 100.0% against 50.0%, +50.0 points, interval +20.0 to +80.0 points (95%), chance 1.0%: higher\nturns of a typical trial: the values of 4 trials are not known"
	if got := strings.Join(in.ComparedPairs(1)[0].Lines(), "\n"); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
