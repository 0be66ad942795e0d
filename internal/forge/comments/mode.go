package comments

import (
	"fmt"
	"slices"
	"strings"
)

// Mode selects when to comment.
type Mode string

// The modes.
const (
	Always   Mode = "always"
	Changes  Mode = "changes"
	Failures Mode = "failures"
	Off      Mode = "off"
)

// Modes are all modes, in the order of help texts.
var Modes = []Mode{Always, Changes, Failures, Off}

// ParseMode parses a mode as users write it.
func ParseMode(s string) (Mode, error) {
	mode := Mode(strings.ToLower(strings.TrimSpace(s)))
	if !slices.Contains(Modes, mode) {
		return "", fmt.Errorf("%q is no comment mode: write always, changes, failures or off", s)
	}
	return mode, nil
}

// ShouldComment reports whether to write the comment. changed: something differs from the baseline,
// or could not be compared with one as the gate demands; failed: the job does not pass; exists: an
// earlier run left a comment. An existing comment is always updated: one that still said "failed"
// would be wrong.
func ShouldComment(mode Mode, changed, failed, exists bool) bool {
	switch mode {
	case Always:
		return true
	case Changes:
		return changed || failed || exists
	case Failures:
		return failed || exists
	}
	return false
}
