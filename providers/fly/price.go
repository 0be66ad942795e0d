package fly

import "time"

// price replaces the prices of the table; nil: it does not.
type price struct{ cpuHour, gibHour *float64 }

// The prices of machines in US dollars for 30 days, as of August 2026, in the regions iad and ewr,
// which are the cheapest. Source: https://fly.io/docs/about/pricing/: shared-cpu-1x with 256 MB is
// $2.19, performance-1x with 2 GB $33.00, and more memory $6.00 for a GB.
const (
	sharedMonth      = 0.695
	performanceMonth = 21.0
	gibMonth         = 6.0
	month            = 30 * 24 * time.Hour
)

// of returns the price of a machine for a time in which it runs.
func (p price) of(g machineGuest, d time.Duration) float64 {
	cpu, gib := sharedMonth, gibMonth
	if g.CPUKind == performance {
		cpu = performanceMonth
	}
	if p.cpuHour != nil {
		cpu = *p.cpuHour * month.Hours()
	}
	if p.gibHour != nil {
		gib = *p.gibHour * month.Hours()
	}
	return (cpu*float64(g.CPUs) + gib*float64(g.MemoryMB)/1024) * d.Seconds() / month.Seconds()
}
