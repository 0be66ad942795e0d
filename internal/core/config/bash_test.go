package config

import "testing"

func TestPipesThatHideAFailureAreFound(t *testing.T) {
	for script, want := range map[string]string{
		"my-agent | tee log":                          "tee",
		"cd /app\nmy-agent --yes 2>&1 | tee -a log\n": "tee",
		"my-agent |& tail -1":                         "tail",
		"a | b | tee log":                             "tee",
		"set -euo pipefail\nmy-agent | tee log":       "",
		"my-agent | tee log; exit ${PIPESTATUS[0]}":   "",
		"my-agent | grep -q done":                     "",
		"echo x | tee /etc/hosts\nmy-agent":           "",
		"printf '%s' \"$K\" | tee key":                "",
		"my-agent || true | tee log":                  "",
		"if my-agent | tee log; then :; fi":           "",
		"x=$(my-agent | tail -1)":                     "",
		"my-agent > log # not | tee log":              "",
		"my-agent '| tee log'":                        "",
		"my-agent | tee 'log":                         "", // bash reports it
		"case $x in a|b) ;; esac":                     "",
	} {
		if got := hidingPipe(script); got != want {
			t.Errorf("%q: %q, want %q", script, got, want)
		}
	}
}
