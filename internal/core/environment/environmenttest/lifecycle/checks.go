package lifecycle

import (
	"slices"

	"github.com/org/rollout-action/internal/core/environment/environmenttest/suite"
)

// Checks returns the checks of this chapter.
func Checks() []suite.Check {
	return slices.Concat(lifecycleChecks(), LimitChecks(), serviceChecks())
}
