package diag

import "testing"

func TestNearest(t *testing.T) {
	keys := []string{"n_attempts", "timeout_sec", "cpus", "memory", "memory_mb"}
	for _, tc := range []struct{ name, in, want string }{
		{"a missing letter", "n_attempt", "n_attempts"},
		{"a wrong letter in a short name", "cpu5", "cpus"},
		{"two exchanged letters in a long name", "timeout_esc", "timeout_sec"},
		{"the nearer of two", "memory_m", "memory_mb"},
		{"nothing is near", "colour", ""},
		{"the empty name is near nothing", "", ""},
		{"a name far longer than any candidate", "environment_variables_of_agents", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Nearest(tc.in, keys); got != tc.want {
				t.Errorf("Nearest(%q) = %q, want %q", tc.in, got, tc.want)
			}
		})
	}
}
