package fly

import (
	"cmp"
	"fmt"

	"github.com/org/rollout-action/internal/core/environment"
)

// The kinds of CPUs.
const (
	shared      = "shared"
	performance = "performance"
)

// kindLimits are the sizes of machines with CPUs of a kind. Memory is in MB, for each CPU.
// Source: https://fly.io/docs/machines/guides-examples/machine-sizing/.
type kindLimits struct {
	cpus              []int
	minMemory, memory int
}

var kinds = map[string]kindLimits{
	shared:      {[]int{1, 2, 4, 8}, 256, 2048},
	performance: {[]int{1, 2, 4, 8, 16}, 2048, 8192},
}

// memoryStep divides the memory of machines, in MB.
const memoryStep = 256

// size returns the smallest machine that has what is asked for.
func (c config) size(l environment.Limits) (machineGuest, error) {
	kind := cmp.Or(c.cpuKind, shared)
	limits := kinds[kind]
	cpus := int((l.MilliCPUs + 999) / 1000)
	memory := int((l.Memory + 1<<20 - 1) >> 20)
	if cpus == 0 {
		cpus = cmp.Or(c.cpus, 1)
	}
	if memory == 0 {
		memory = cmp.Or(c.memoryMB, defaultMemory)
	}
	for _, n := range limits.cpus {
		if n < cpus || n*limits.memory < memory {
			continue
		}
		memory = max(memory, n*limits.minMemory)
		return machineGuest{CPUKind: kind, CPUs: n, MemoryMB: (memory + memoryStep - 1) / memoryStep * memoryStep}, nil
	}
	largest := limits.cpus[len(limits.cpus)-1]
	e := &environment.Error{
		Kind: environment.KindResources,
		Err:  fmt.Errorf("no machine of the kind %s has %d CPUs and %d MB of memory: the largest has %d and %d", kind, cpus, memory, largest, largest*limits.memory),
		Hint: "lower the cpus or memory of the task, or override_cpus and override_memory",
	}
	if kind == shared {
		e.Hint += "; or use cpu_kind: performance"
	}
	return machineGuest{}, e
}

// defaultMemory is the memory of tasks that ask for none, in MB.
const defaultMemory = 2048
