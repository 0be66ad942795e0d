// Package reporters is the table of the forms in which a job can be reported.
package reporters

import (
	"github.com/org/rollout-action/internal/report"
	"github.com/org/rollout-action/reporters/junit"
)

// All are the reporters, by name.
var All = map[string]report.Reporter{
	"junit": junit.Reporter{},
}
