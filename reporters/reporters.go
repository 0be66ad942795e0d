// Package reporters has the table of all reporters.
package reporters

import (
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/reporters/annotations"
	"github.com/org/rollout-action/reporters/comment"
	"github.com/org/rollout-action/reporters/html"
	"github.com/org/rollout-action/reporters/json"
	"github.com/org/rollout-action/reporters/junit"
	"github.com/org/rollout-action/reporters/markdown"
)

// All lists the reporters by name.
var All = map[string]report.Reporter{
	"annotations": annotations.Reporter{},
	"comment":     comment.Reporter{},
	"html":        html.Reporter{},
	"json":        json.Reporter{},
	"junit":       junit.Reporter{},
	"markdown":    markdown.Reporter{},
}
