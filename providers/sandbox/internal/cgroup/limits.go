package cgroup

import (
	"fmt"
	"strconv"
)

// The names of limits, as Missing and New report them.
const (
	CPUs   = "cpus"
	Memory = "memory"
	Pids   = "pids"
)

// Limits bounds the resources that all processes of a group use together. Zero and less is no
// limit.
type Limits struct {
	MilliCPUs int64 // thousandths of a processor's time
	Memory    int64 // bytes; without swap where the kernel supports that
	Pids      int64 // processes and threads
}

// limit is one of the three limits: its name and the kernel's controller for it.
type limit struct{ name, controller string }

// limits lists memory first. If a group of version 2 contains processes, the kernel refuses that
// controller; it would accept the others and make the group unusable for its processes.
var limits = []limit{{Memory, "memory"}, {CPUs, "cpu"}, {Pids, "pids"}}

const (
	periodMicros   = 100_000       // the kernel's default
	minQuotaMicros = 1_000         // Source: kernel/sched/core.c, min_cfs_quota_period
	maxMilliCPUs   = 1_000_000_000 // more than any machine has, and no overflow
	maxPids        = 4_194_304     // Source: include/linux/threads.h, PID_MAX_LIMIT
)

// setting is a value for a file of a group. An optional file is missing on some kernels.
type setting struct {
	file, value string
	optional    bool
}

// settings returns the values to write for a limit, or none if l does not set that limit.
func (l Limits) settings(name string, unified bool) []setting {
	switch {
	case name == CPUs && l.MilliCPUs > 0:
		return cpuSettings(l.MilliCPUs, unified)
	case name == Memory && l.Memory > 0:
		return memorySettings(strconv.FormatInt(l.Memory, 10), unified)
	case name == Pids && l.Pids > 0:
		value := "max" // the kernel refuses numbers above its limit
		if l.Pids < maxPids {
			value = strconv.FormatInt(l.Pids, 10)
		}
		return []setting{{file: "pids.max", value: value}}
	}
	return nil
}

func cpuSettings(milli int64, unified bool) []setting {
	quota := max(min(milli, maxMilliCPUs)*(periodMicros/1000), minQuotaMicros)
	if unified {
		return []setting{{file: "cpu.max", value: fmt.Sprintf("%d %d", quota, periodMicros)}}
	}
	return []setting{
		{file: "cpu.cfs_period_us", value: strconv.Itoa(periodMicros)},
		{file: "cpu.cfs_quota_us", value: strconv.FormatInt(quota, 10)},
	}
}

// memorySettings leaves memory.oom.group at its default 0: the kernel then kills a single process,
// not the whole sandbox with its results.
func memorySettings(bytes string, unified bool) []setting {
	if unified {
		return []setting{{file: "memory.max", value: bytes}, {file: "memory.swap.max", value: "0", optional: true}}
	}
	// memsw counts memory and swap together, and may not be below the limit of memory at any time.
	return []setting{
		{file: "memory.limit_in_bytes", value: bytes},
		{file: "memory.memsw.limit_in_bytes", value: bytes, optional: true},
	}
}

// limitFile returns the file that a group of version 1 has if its controller can enforce the limit.
func limitFile(name string) string {
	return map[string]string{CPUs: "cpu.cfs_quota_us", Memory: "memory.limit_in_bytes", Pids: "pids.max"}[name]
}
