package resume

import (
	"fmt"
	"strings"

	"github.com/org/rollout-action/internal/core/gate"
)

// maxGateChanges limits the differences that OtherGate names.
const maxGateChanges = 5

// OtherGate returns in one line how two gates differ in what the looks of a job in rounds depend
// on; "" if they do not. The text is hostile, as names are.
func OtherGate(was, is gate.Policy) (string, error) {
	a, err := asObject(was.ForLooks())
	if err != nil {
		return "", err
	}
	b, err := asObject(is.ForLooks())
	if err != nil {
		return "", err
	}
	var c comparison
	c.compare([]string{"gate"}, a, b)
	var lines []string
	for _, change := range c.changes[:min(len(c.changes), maxGateChanges)] {
		lines = append(lines, change.Key+" "+change.Message)
	}
	if more := len(c.changes) - maxGateChanges; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "; "), nil
}
