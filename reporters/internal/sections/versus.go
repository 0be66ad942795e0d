package sections

import "github.com/org/rollout-action/internal/core/report"

// shortPairs is how many pairs of agents a short page shows.
const shortPairs = 5

// Versus returns a table for each pair of agents that the job compares; nothing without any.
func (p *Page) Versus() string {
	most := report.MaxPairs
	if p.detail.Short {
		most = shortPairs
	}
	var parts []string
	for _, pair := range p.in.ComparedPairs(most) {
		header := []string{"", ">" + name(pair.A), ">" + name(pair.B), ">Difference", ">Interval", ">Chance", "Result"}
		parts = append(parts, table(header, pair.Rows), pair.Says+"\n")
	}
	if len(parts) == 0 {
		return ""
	}
	return Join(append([]string{"### Agents compared"}, parts...)...)
}
