package prove

import (
	"cmp"
	"path"
	"slices"
	"strconv"
)

// Severity separates what makes a task unfit from what may trouble somebody later.
type Severity string

// The severities. A task with an error does not pass, even if it is proven.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Finding is one thing about a task. All its texts may quote the task's files, so they are hostile.
type Finding struct {
	Rule     string   `json:"rule"` // one of Rules
	Severity Severity `json:"severity"`
	// File is below the task's folder, with forward slashes; "" is the task itself. Line and Column (in bytes) count from 1;
	// 0 is the whole file, or the whole line.
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"` // a sentence without a full stop
	Hint    string `json:"hint"`    // the way out; may be ""
	// Ignored is the reason that task.toml gives for ignoring it; "" if it counts.
	Ignored string `json:"ignored,omitempty"`
}

// Place is where the finding is, as path:line:column, when the task's folder is at dir.
func (f Finding) Place(dir string) string {
	return f.at(cmp.Or(path.Join(dir, f.File), "."))
}

// at is a place in a file.
func (f Finding) at(place string) string {
	if f.Line > 0 {
		place += ":" + strconv.Itoa(f.Line)
	}
	if f.Line > 0 && f.Column > 0 {
		place += ":" + strconv.Itoa(f.Column)
	}
	return place
}

// Counts tells whether the finding is an error that nobody has excused.
func (f Finding) Counts() bool { return f.Severity == Error && f.Ignored == "" }

// sortFindings orders by severity, errors first, then by place, rule and message.
func sortFindings(findings []Finding) {
	slices.SortFunc(findings, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(a.Severity, b.Severity), // "error" is before "warning"
			cmp.Compare(a.File, b.File),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Rule, b.Rule),
			cmp.Compare(a.Message, b.Message),
		)
	})
}
