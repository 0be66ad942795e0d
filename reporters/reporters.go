// Package reporters is the table of the forms in which a job can be reported.
package reporters

import "github.com/org/rollout-action/internal/report"

// All are the reporters, by name.
var All = map[string]report.Reporter{}
