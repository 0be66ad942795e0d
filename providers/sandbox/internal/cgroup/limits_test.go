package cgroup

import (
	"fmt"
	"math"
	"testing"
)

func TestSettings(t *testing.T) {
	for _, tc := range []struct {
		name    string
		limits  Limits
		limit   string
		unified bool
		want    string
	}{
		{"no limit", Limits{}, CPUs, false, "[]"},
		{"less than nothing is no limit", Limits{Memory: -1}, Memory, true, "[]"},
		{"another limit", Limits{Memory: 1}, Pids, true, "[]"},
		{"half a processor, version 1", Limits{MilliCPUs: 500}, CPUs, false, "[{cpu.cfs_period_us 100000 false} {cpu.cfs_quota_us 50000 false}]"},
		{"two processors, version 2", Limits{MilliCPUs: 2000}, CPUs, true, "[{cpu.max 200000 100000 false}]"},
		{"less than the kernel grants", Limits{MilliCPUs: 1}, CPUs, true, "[{cpu.max 1000 100000 false}]"},
		{"processors beyond counting", Limits{MilliCPUs: math.MaxInt64}, CPUs, true, "[{cpu.max 100000000000 100000 false}]"},
		{"memory, version 1", Limits{Memory: 1 << 30}, Memory, false, "[{memory.limit_in_bytes 1073741824 false} {memory.memsw.limit_in_bytes 1073741824 true}]"},
		{"memory, version 2", Limits{Memory: 1 << 30}, Memory, true, "[{memory.max 1073741824 false} {memory.swap.max 0 true}]"},
		{"processes", Limits{Pids: 64}, Pids, false, "[{pids.max 64 false}]"},
		{"more processes than there can be", Limits{Pids: math.MaxInt64}, Pids, true, "[{pids.max max false}]"},
	} {
		if got := fmt.Sprint(tc.limits.settings(tc.limit, tc.unified)); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}
