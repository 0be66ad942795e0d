package html

import (
	"io"

	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/output/page"
)

// Reporter writes the page. It implements report.Reporter.
type Reporter struct {
	// Limit bounds the bytes that are written; 0 means page.DefaultLimit.
	Limit int
}

// Write implements report.Reporter.
func (r Reporter) Write(w io.Writer, in report.Input) error { return page.Write(w, in, r.Limit) }
