package docker

import (
	"fmt"
	"testing"
)

func TestCheck(t *testing.T) {
	for _, test := range []struct {
		name string
		cfg  map[string]any
		want string
	}{
		{"nothing is fine", nil, "[]"},
		{"all keys", map[string]any{"network": "host", "runtime": "nvidia", "pids_limit": 100, "mounts": []any{
			"/a:/b", "/a:/b:ro", map[string]any{"source": "/a", "target": "/b", "read_only": true}}}, "[]"},
		{"privileged is refused", map[string]any{"privileged": true},
			"[{privileged privileged containers are refused an agent in a privileged container controls the whole machine; use runtime, mounts or network for the access that it needs}]"},
		{"unknown keys", map[string]any{"netwrok": "x", "cap_add": 1},
			"[{cap_add unknown key the docker provider knows network, runtime, mounts and pids_limit} {netwrok unknown key the docker provider knows network, runtime, mounts and pids_limit}]"},
		{"wrong types", map[string]any{"network": 1, "runtime": "", "mounts": "x", "pids_limit": 0.5},
			`[{mounts must be a list e.g. ["/srv/cache:/cache:ro"]} {network must be a name } {pids_limit must be a whole number above 0 } {runtime must be a name }]`},
		{"numbers as decoders make them", map[string]any{"pids_limit": float64(7)}, "[]"},
		{"mounts where trials put and remove files", map[string]any{"mounts": []any{"/a:/tests", "/a:/logs/verifier/x", "/a://", "/a:/x/../oracle/", "/a:/testsuite", "/a:/solution/x"}},
			`[{mounts.0.target "/tests" would put the host's files at /tests, which rollout fills, empties and copies choose another target}` +
				` {mounts.1.target "/logs/verifier/x" would put the host's files at /logs, which rollout fills, empties and copies choose another target}` +
				` {mounts.2.target "//" would put the host's files at /tests, which rollout fills, empties and copies choose another target}` +
				` {mounts.3.target "/x/../oracle/" would put the host's files at /oracle, which rollout fills, empties and copies choose another target}` +
				` {mounts.5.target "/solution/x" would put the host's files at /solution, which rollout fills, empties and copies choose another target}]`},
		{"mounts, one by one", map[string]any{"mounts": []any{"/a", "/a:/b:rw", "a:b", 5, map[string]any{"source": 1, "targte": "/b", "target": "/b"}, map[string]any{"source": "/a"}}},
			`[{mounts.0 "/a" is not source:target or source:target:ro } {mounts.1 "/a:/b:rw" is not source:target or source:target:ro }` +
				` {mounts.2.source "a" is not an absolute path mounts are made by the engine, on its host}` +
				` {mounts.2.target "b" is not an absolute path mounts are made by the engine, on its host}` +
				` {mounts.3 must be {source, target, read_only} or "source:target[:ro]" } {mounts.4.source has the wrong type }` +
				` {mounts.4.targte unknown key a mount has source, target and read_only}` +
				` {mounts.5.target "" is not an absolute path mounts are made by the engine, on its host}]`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := shown(Check(test.cfg)); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
	if _, err := New(t.Context(), map[string]any{"privileged": true, "x": 1}); err == nil ||
		err.Error() != "environment.provider_config.privileged: privileged containers are refused (an agent in a privileged container controls the whole machine; use runtime, mounts or network for the access that it needs)\n"+
			"environment.provider_config.x: unknown key (the docker provider knows network, runtime, mounts and pids_limit)" {
		t.Error(err)
	}
}

// shown returns problems without the keys that there are, which hints list.
func shown(problems []Problem) string {
	texts := make([]string, len(problems))
	for i, p := range problems {
		texts[i] = fmt.Sprintf("{%s %s %s}", p.Path, p.Message, p.Hint)
	}
	return fmt.Sprint(texts)
}

func TestUnaddressed(t *testing.T) {
	for _, test := range []struct {
		cfg  map[string]any
		want string
	}{
		{nil, "[]"},
		{map[string]any{"network": "none", "runtime": "runc", "pids_limit": 100, "mounts": []any{}}, "[]"},
		{map[string]any{"mounts": []any{"/a:/b:ro"}}, "[mounts (files of the engine's machine)]"},
		{map[string]any{"network": "mine", "mounts": []any{"/a:/b"}}, "[mounts (files of the engine's machine) network: mine (the servers there)]"},
	} {
		if got := fmt.Sprint(Unaddressed(test.cfg)); got != test.want {
			t.Errorf("%v: %s, want %s", test.cfg, got, test.want)
		}
	}
}
