package podinit

import (
	"testing"
)

// The agent is blamed for a full limit only if nothing else can be the reason.
func TestAgentIsBlamedForAFullProcessLimit(t *testing.T) {
	const threads, pids, load = "/proc/sys/kernel/threads-max", "/proc/sys/kernel/pid_max", "/proc/loadavg"
	for name, tc := range map[string]struct {
		n     int // tasks of the container
		files map[string]string
		want  bool
	}{
		"a machine with much room":           {500, map[string]string{load: "1.0 1.0 1.0 3/2000 77", threads: "100000", pids: "4194304"}, true},
		"neighbours have most tasks":         {500, map[string]string{load: "1.0 1.0 1.0 3/60000 77", threads: "100000", pids: "4194304"}, false},
		"the container has most tasks":       {40_000, map[string]string{load: "1.0 1.0 1.0 3/60000 77", threads: "100000", pids: "4194304"}, true},
		"a full machine":                     {500, map[string]string{load: "1.0 1.0 1.0 3/99000 77", threads: "100000", pids: "4194304"}, false},
		"a machine that the container fills": {98_000, map[string]string{load: "1.0 1.0 1.0 3/99000 77", threads: "100000", pids: "4194304"}, false},
		"a machine without ids":              {500, map[string]string{load: "1.0 1.0 1.0 3/32760 77", threads: "100000", pids: "32768"}, false},
		"almost without ids":                 {32_000, map[string]string{load: "1.0 1.0 1.0 3/32700 77", threads: "100000", pids: "32768"}, false},
		"nothing is known":                   {500, nil, false},
		"no load":                            {500, map[string]string{threads: "100000", pids: "4194304"}, false},
		"a short load":                       {500, map[string]string{load: "1.0 1.0", threads: "100000", pids: "4194304"}, false},
		"a load that is no number":           {500, map[string]string{load: "1.0 1.0 1.0 many 77", threads: "100000", pids: "4194304"}, false},
		"the load of another namespace":      {500, map[string]string{load: "0.0 0.0 0.0 0/0 0", threads: "100000", pids: "4194304"}, false},
		"no limit of threads":                {500, map[string]string{load: "1.0 1.0 1.0 3/2000 77", pids: "4194304"}, false},
		"no limit of ids":                    {500, map[string]string{load: "1.0 1.0 1.0 3/2000 77", threads: "100000"}, false},
		"a limit that is no number":          {500, map[string]string{load: "1.0 1.0 1.0 3/2000 77", threads: "100000", pids: "max"}, false},
	} {
		if got := fills(tc.n, readMachine(func(file string) string { return tc.files[file] })); got != tc.want {
			t.Errorf("%s: the container is to blame: %t", name, got)
		}
	}
}

// The limit of the container's own control group counts before anything else.
func TestLimitOfTheOwnControlGroup(t *testing.T) {
	for name, tc := range map[string]struct {
		files    map[string]string
		n, limit int
	}{
		"version 2":             {map[string]string{"/sys/fs/cgroup/pids.max": "150", "/sys/fs/cgroup/pids.current": "148"}, 148, 150},
		"version 1":             {map[string]string{"/sys/fs/cgroup/pids/pids.max": "150", "/sys/fs/cgroup/pids/pids.current": "3"}, 3, 150},
		"no limit":              {map[string]string{"/sys/fs/cgroup/pids.max": "max", "/sys/fs/cgroup/pids.current": "148"}, 0, 0},
		"no number of tasks":    {map[string]string{"/sys/fs/cgroup/pids.max": "150"}, 0, 0},
		"nothing is to be seen": {nil, 0, 0},
	} {
		if n, limit := ownLimit(func(file string) string { return tc.files[file] }); n != tc.n || limit != tc.limit {
			t.Errorf("%s: %d of %d", name, n, limit)
		}
	}
}
