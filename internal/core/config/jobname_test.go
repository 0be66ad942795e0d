package config

import "testing"

func TestNameMatches(t *testing.T) {
	for _, tc := range []struct {
		asked, name string
		want        bool
	}{
		{"evals", "evals", true},
		{"evals", "evals s", false},
		{"evals [small]", "evals s", false},
		{"gpt-5 (high)", "gpt-5 (high)", true},
		{"e.als", "evals", false},
		{"n-{date}", "n-2026-11-26", true},
		{"n-{date}", "n-x", false},
		{"{commit}-{run}!", "0123456789ab-17!", true},
		{"{commit}-{run}!", "0123456789ab-17", false},
		{"{other}", "{other}", true},
	} {
		if got := NameMatches(tc.asked, tc.name); got != tc.want {
			t.Errorf("NameMatches(%q, %q) = %v", tc.asked, tc.name, got)
		}
	}
}
