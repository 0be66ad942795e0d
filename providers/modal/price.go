package modal

import (
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
)

// price replaces the prices of the table; nil: it does not.
type price struct{ coreHour, gibHour, gpuHour *float64 }

// The prices of sandboxes in US dollars, as of June 2026, without a region.
// Source: https://modal.com/pricing.
const (
	corePerSecond = 0.00003942
	gibPerSecond  = 0.00000672
)

// gpuPerSecond has the prices of GPUs by Modal's names.
var gpuPerSecond = map[string]float64{
	"B200": 0.001736, "H200": 0.001261, "H100": 0.001097, "A100-80GB": 0.000694, "A100": 0.000583, "A100-40GB": 0.000583,
	"L40S": 0.000542, "A10": 0.000306, "A10G": 0.000306, "L4": 0.000222, "T4": 0.000164,
}

// What Modal reserves for a sandbox that asks for nothing.
// Source: https://modal.com/docs/guide/resources.
const (
	defaultMilliCPUs = 125
	defaultMemory    = 128 << 20
)

// of returns the price of what was requested, whether it was used or not. Modal bills usage that is
// higher than a request, which only a sandbox without limits has.
func (p price) of(l environment.Limits, d time.Duration) float64 {
	core, gib, gpu := corePerSecond, gibPerSecond, gpuPerSecond[strings.ToUpper(gpuType(l.GPUTypes))]
	for _, own := range []struct {
		hour *float64
		to   *float64
	}{{p.coreHour, &core}, {p.gibHour, &gib}, {p.gpuHour, &gpu}} {
		if own.hour != nil {
			*own.to = *own.hour / time.Hour.Seconds()
		}
	}
	cores := float64(max(l.MilliCPUs, defaultMilliCPUs)) / 1000
	gibs := float64(max(l.Memory, defaultMemory)) / (1 << 30)
	return (core*cores + gib*gibs + gpu*float64(l.GPUs)) * d.Seconds()
}

// gpuType returns the type of GPU to ask for: Modal takes one.
func gpuType(types string) string {
	first, _, _ := strings.Cut(types, ",")
	if first = strings.TrimSpace(first); first == "" {
		return "any"
	}
	return first
}
