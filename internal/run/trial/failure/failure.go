// Package failure defines the errors of trials before they are in results, classifies the errors of
// steps, and prepares texts from environments for messages.
package failure

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/lib/excerpt"
	"github.com/org/rollout-action/internal/lib/redact"
)

// Error is a trial's error before it is in the result. It implements error, so that a step can
// return an error with its type.
type Error struct {
	Type         result.ErrorType
	Message      string
	Detail       string // for error.txt
	MachineFault error  // this machine's failure that caused it; nil if something else did
	Again        bool   // neither the agent nor the task caused it, so the trial starts over if the agent has not begun
}

func (e *Error) Error() string { return e.Message }

// Newf returns an error of a type.
func Newf(kind result.ErrorType, format string, args ...any) *Error {
	return &Error{Type: kind, Message: fmt.Sprintf(format, args...)}
}

// Unreadable returns the error of task files that cannot be read: this machine's failure, or else
// the task's.
func Unreadable(what string, err error) error {
	if environment.MachineFault(err) != nil {
		return fmt.Errorf("read the task's %s: %w", what, err)
	}
	return Newf(result.TaskInvalid, "%s cannot be read: %v", what, err)
}

// OfAgent reports whether an error of a trial, or nil, means that the agent ran and failed.
func OfAgent(e *result.Error) bool {
	if e == nil {
		return false
	}
	switch e.Type {
	case result.AgentExecutionFailed, result.AgentExecutionTimeout, result.ModelFailed, result.ModelEmptyResponse:
		return true
	}
	return false
}

// Brief returns an error in one line, not too long for a list of failures. It redacts the error
// before it cuts it, because a part of a secret is not recognised.
func Brief(err error, secrets *redact.Redactor) string {
	const most = 600
	text := strings.Join(strings.Fields(Hide(secrets, err.Error())), " ")
	return excerpt.Middle(text, most)
}

// Hide returns text that may come from an environment without escape sequences and invisible
// characters, and then without secrets. The order matters: printing strips the text, too, and that
// must not join the parts of a secret that was written with invisible characters in between.
func Hide(r *redact.Redactor, text string) string {
	visible := strings.Map(func(c rune) rune {
		if unicode.Is(unicode.Cf, c) || unicode.IsControl(c) && !unicode.IsSpace(c) {
			return -1
		}
		return c
	}, ansi.Strip(text))
	return r.String(visible)
}
