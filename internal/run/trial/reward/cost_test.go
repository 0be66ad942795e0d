package reward

import "testing"

func TestCosts(t *testing.T) {
	for _, tc := range []struct {
		text string
		want float64
		ok   bool
	}{
		{"0.0342\n", 0.0342, true}, {"$1.50", 1.5, true}, {"0", 0, true}, {"1e-3", 0.001, true},
		{"-1", 0, false}, {"1e300", 0, false}, {"", 0, false}, {"nan", 0, false}, {"1e999", 0, false}, {"3 dollars", 0, false}, {"1\n2", 0, false},
	} {
		got, err := ParseCost(caught(tc.text), nil)
		if (err == nil) != tc.ok || tc.ok && got != tc.want {
			t.Errorf("%q is %g, %v", tc.text, got, err)
		}
	}
}
