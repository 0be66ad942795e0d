package github

import (
	"fmt"
	"slices"
	"strings"
)

// Mode is when there is a comment.
type Mode string

// The modes.
const (
	Always   Mode = "always"
	Changes  Mode = "changes"
	Failures Mode = "failures"
	Off      Mode = "off"
)

// Modes are all of them, as help texts list them.
var Modes = []Mode{Always, Changes, Failures, Off}

// ParseMode reads a mode as people write it.
func ParseMode(s string) (Mode, error) {
	mode := Mode(strings.ToLower(strings.TrimSpace(s)))
	if !slices.Contains(Modes, mode) {
		return "", fmt.Errorf("%q is no comment mode: write always, changes, failures or off", s)
	}
	return mode, nil
}

// Wanted decides whether to write the comment. changed: something differs from the baseline; failed: the job does not pass;
// exists: an earlier run left a comment. That one is always brought up to date, back to good too: a comment that
// went on saying "failed" would be wrong.
func Wanted(mode Mode, changed, failed, exists bool) bool {
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
