package untrusted

import "testing"

func TestShellPath(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"usual paths are unchanged", "jobs/2026-11-21__10-00-00/cpe/bench/日本__1", "jobs/2026-11-21__10-00-00/cpe/bench/日本__1"},
		{"spaces are quoted", "my jobs/x", "'my jobs/x'"},
		{"substitutions are quoted", "jobs/$(reboot)`x`", "'jobs/$(reboot)`x`'"},
		{"quotes are quoted", "it's", `'it'\''s'`},
		{"a tilde", "~/x", "'~/x'"},
		{"a workflow command", "::error::x", "'::error::x'"},
		{"nothing", "", "''"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ShellPath(c.in); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
