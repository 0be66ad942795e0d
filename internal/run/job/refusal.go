package job

import (
	"fmt"

	"github.com/org/rollout-action/internal/lib/untrusted"
)

// Refusal is the error of a job's directory that cannot be merged or resumed: the input is at
// fault, not the machine. Nothing was written.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// Refuse returns a Refusal that is safe to print on one line.
func Refuse(format string, args ...any) error {
	return Refusal(untrusted.Line(fmt.Sprintf(format, args...)))
}
