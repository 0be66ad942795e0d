package docker

import (
	"cmp"
	"fmt"

	"github.com/docker/docker/api/types/container"
	"github.com/org/rollout-action/internal/environment"
)

// resources is what the engine is asked to enforce, and the names of the limits that it cannot.
// What no container of this engine can ever have is KindResources.
func (p *Provider) resources(limits environment.Limits) (container.Resources, []string, error) {
	if most := int64(p.info.NCPU) * 1000; most > 0 && limits.MilliCPUs > most {
		return container.Resources{}, nil, &environment.Error{
			Kind: environment.KindResources,
			Hint: "set environment.override_cpus, or use a larger machine",
			Err:  fmt.Errorf("%g cpus are wanted, the Docker engine has %d", float64(limits.MilliCPUs)/1000, p.info.NCPU),
		}
	}
	if most := p.info.MemTotal; most > 0 && limits.Memory > most {
		return container.Resources{}, nil, &environment.Error{
			Kind: environment.KindResources,
			Hint: "set environment.override_memory, or use a larger machine",
			Err:  fmt.Errorf("%d MiB of memory are wanted, the Docker engine has %d MiB", limits.Memory>>20, most>>20),
		}
	}
	pids := cmp.Or(limits.Pids, p.config.pidsLimit)
	var unenforced []string
	resources := container.Resources{PidsLimit: &pids}
	if limits.MilliCPUs > 0 {
		resources.NanoCPUs = limits.MilliCPUs * 1e6
	}
	if limits.Memory > 0 {
		// Without MemorySwap a container gets the same amount of swap on top.
		resources.Memory, resources.MemorySwap = limits.Memory, limits.Memory
	}
	if limits.Storage > 0 {
		unenforced = append(unenforced, "storage")
	}
	return resources, unenforced, nil
}
