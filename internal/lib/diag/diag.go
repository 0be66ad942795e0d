// Package diag holds diagnostics for users' files: position, message and hint.
package diag

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity is the severity of a problem: an error stops a run, a warning does not.
type Severity int

// The severities.
const (
	Error Severity = iota
	Warning
)

// Diagnostic is one problem. Line and Column count from 1; 0 means the whole file.
type Diagnostic struct {
	File     string
	Line     int
	Column   int
	Message  string
	Hint     string // how to fix it, without parentheses; may be empty
	Severity Severity
}

// String returns file:line:col: message (hint), with "warning:" before the message of a warning.
func (d Diagnostic) String() string {
	var b strings.Builder
	b.WriteString(d.File)
	if d.Line > 0 {
		fmt.Fprintf(&b, ":%d", d.Line)
		if d.Column > 0 {
			fmt.Fprintf(&b, ":%d", d.Column)
		}
	}
	b.WriteString(": ")
	if d.Severity == Warning {
		b.WriteString("warning: ")
	}
	b.WriteString(d.Message)
	if d.Hint != "" {
		fmt.Fprintf(&b, " (%s)", d.Hint)
	}
	return b.String()
}

// List holds the problems of one or more files. It is an error, even if it is empty: use Err to get
// nil in that case.
type List []Diagnostic

// Error returns the problems, one per line.
func (l List) Error() string {
	lines := make([]string, len(l))
	for i, d := range l {
		lines[i] = d.String()
	}
	return strings.Join(lines, "\n")
}

// Errors returns the problems that stop a run.
func (l List) Errors() List { return l.only(Error) }

// Warnings returns the problems that do not stop a run.
func (l List) Warnings() List { return l.only(Warning) }

func (l List) only(s Severity) List {
	var out List
	for _, d := range l {
		if d.Severity == s {
			out = append(out, d)
		}
	}
	return out
}

// Err returns the errors of the list as an error, or nil if there are none.
func (l List) Err() error {
	if errs := l.Errors(); len(errs) > 0 {
		return errs
	}
	return nil
}

// Sort sorts by file, line, column and message.
func (l List) Sort() {
	slices.SortStableFunc(l, func(a, b Diagnostic) int {
		return cmp.Or(
			cmp.Compare(a.File, b.File),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Message, b.Message),
		)
	})
}
