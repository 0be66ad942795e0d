package docker

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/system"

	"github.com/org/rollout-action/internal/core/environment"
)

// The least that a container needs. Source: moby, daemon_unix.go (linuxMinMemory, NanoCPUs).
const (
	minMemory    = 6 << 20
	minMilliCPUs = 10
)

// granted holds the limits that the engine enforces, and the names of those that it cannot.
type granted struct {
	resources  container.Resources
	storage    int64 // bytes; 0: not limited
	unenforced []string
}

// grant translates limits. A limit that this engine can never satisfy is KindResources.
func (p *Provider) grant(limits environment.Limits) (granted, error) {
	if err := possible(p.info, limits); err != nil {
		return granted{}, err
	}
	var g granted
	if limits.MilliCPUs > 0 && g.needs("cpus", p.info.CPUCfsQuota) {
		g.resources.NanoCPUs = limits.MilliCPUs * 1e6
	}
	if limits.Memory > 0 && g.needs("memory", p.info.MemoryLimit) {
		// Without MemorySwap a container gets the same amount of swap on top.
		g.resources.Memory, g.resources.MemorySwap = limits.Memory, limits.Memory
	}
	if pids := cmp.Or(limits.Pids, p.config.pidsLimit); p.info.PidsLimit {
		g.resources.PidsLimit = &pids
	} else if limits.Pids > 0 {
		g.unenforced = append(g.unenforced, "pids")
	}
	if limits.GPUs > 0 {
		g.resources.DeviceRequests = []container.DeviceRequest{{Count: int(limits.GPUs), Capabilities: [][]string{{"gpu"}}}}
	}
	if limits.Storage > 0 && g.needs("storage", p.limitsStorage()) {
		g.storage = limits.Storage
	}
	return g, nil
}

// needs notes a limit that the engine does not support, and reports whether it does.
func (g *granted) needs(limit string, supported bool) bool {
	if !supported {
		g.unenforced = append(g.unenforced, limit)
	}
	return supported
}

// ChoosesGPUs implements environment.GPUProvider: the engine gives the first GPUs that it has.
func (*Provider) ChoosesGPUs() bool { return false }

// noGPU returns the error of an engine that gave no GPU, as KindResources; nil if that is not why
// it failed. Source: moby, daemon/devices_linux.go and the NVIDIA Container Toolkit.
func noGPU(limits environment.Limits, err error) error {
	text := strings.ToLower(err.Error())
	if limits.GPUs == 0 || !strings.Contains(text, "could not select device driver") && !strings.Contains(text, "nvidia") {
		return nil
	}
	return &environment.Error{
		Kind: environment.KindResources, Err: fmt.Errorf("%d GPUs are wanted, and the Docker engine did not give them: %w", limits.GPUs, err),
		Hint: "install the NVIDIA Container Toolkit on the engine's machine, use another machine, or leave the task out: exclude_tasks in the job",
	}
}

func possible(info system.Info, limits environment.Limits) error {
	cpus, memory := int64(info.NCPU)*1000, info.MemTotal
	switch {
	case cpus > 0 && limits.MilliCPUs > cpus:
		return impossible("override_cpus", "%g cpus are wanted, the Docker engine has %d", float64(limits.MilliCPUs)/1000, info.NCPU)
	case limits.MilliCPUs > 0 && limits.MilliCPUs < minMilliCPUs:
		return impossible("override_cpus", "%g cpus are wanted, a container has at least 0.01", float64(limits.MilliCPUs)/1000)
	case memory > 0 && limits.Memory > memory:
		return impossible("override_memory", "%d MiB of memory are wanted, the Docker engine has %d MiB", limits.Memory>>20, memory>>20)
	case limits.Memory > 0 && limits.Memory < minMemory:
		return impossible("override_memory", "%d bytes of memory are wanted, a container has at least 6 MiB", limits.Memory)
	}
	return nil
}

func impossible(override, format string, args ...any) error {
	return &environment.Error{
		Kind: environment.KindResources,
		Hint: "change the task's limits, set environment." + override + " in the job file, or use another machine",
		Err:  fmt.Errorf(format, args...),
	}
}

// limitsStorage reports whether the engine may be able to limit a container's storage. overlay2
// can on xfs alone, and there only with project quotas, which shows when a container is created.
func (p *Provider) limitsStorage() bool {
	if p.noStorage.Load() {
		return false
	}
	switch p.info.Driver {
	case "btrfs", "zfs":
		return true
	case "overlay2":
		for _, status := range p.info.DriverStatus {
			if status[0] == "Backing Filesystem" {
				return status[1] == "xfs"
			}
		}
	}
	return false
}
