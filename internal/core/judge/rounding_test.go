package judge

import "testing"

// Sums of decimal weights are rounded, so that a trial passes with exactly 1.
func TestRewardsAreRounded(t *testing.T) {
	r, problems := CompileReward("0.5 * tests + 0.2 + 0.2 + 0.1 * tests", nil, true)
	if len(problems) > 0 {
		t.Fatalf("%+v", problems)
	}
	for tests, want := range map[float64]float64{1: 1, 0: 0.4} {
		if got, err := r.Value(&tests, nil, nil); err != nil || got != want {
			t.Errorf("tests %v: %v, %v, want %v", tests, got, err, want)
		}
	}
}
