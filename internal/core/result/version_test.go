package result

import "testing"

func TestJudgeAlike(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{"v1.2.3", "v1.2.3", true},
		{"v1.2.3", "v1.2.10", true},
		{"v1.2.3", "v1.3.0", false},
		{"v1.2.3", "v2.2.3", false},
		{"v1.2.3", "v1.2.4-rc.1", false},
		{"v1.2.4-rc.1", "v1.2.4-rc.1", true},
		{"", "v1.2.3", true},
		{"", "", true},
	} {
		if got := JudgeAlike(tc.a, tc.b); got != tc.want || JudgeAlike(tc.b, tc.a) != got {
			t.Errorf("JudgeAlike(%q, %q) = %v", tc.a, tc.b, got)
		}
	}
}
