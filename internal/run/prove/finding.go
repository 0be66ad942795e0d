package prove

import (
	"cmp"
	"path"
	"slices"
	"strconv"
)

// Severity distinguishes errors, which make a task unfit, from warnings.
type Severity string

// The severities. A task with an error does not pass, even if it is proven.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Finding is one problem of a task. All its texts may quote the task's files, so they are hostile.
type Finding struct {
	Rule     string   `json:"rule"` // one of Rules
	Severity Severity `json:"severity"`
	// File is below the task's directory, with forward slashes; "" is the task itself. Line and
	// Column (in bytes) count from 1; 0 is the whole file, or the whole line.
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"` // a sentence without a full stop
	Hint    string `json:"hint"`    // the remedy; may be ""
	// Trial is the directory of the run that shows it, below the job's; "" if no run does, or if
	// runs are missing.
	Trial string `json:"trial,omitempty"`
	// Ignored is the reason for which task.toml ignores the finding; "" if it counts.
	Ignored string `json:"ignored,omitempty"`
}

// Place returns where the finding is, as path:line:column, if the task's directory is dir.
func (f Finding) Place(dir string) string {
	return f.at(cmp.Or(path.Join(dir, f.File), "."))
}

// at returns place with the finding's line and column.
func (f Finding) at(place string) string {
	if f.Line > 0 {
		place += ":" + strconv.Itoa(f.Line)
	}
	if f.Line > 0 && f.Column > 0 {
		place += ":" + strconv.Itoa(f.Column)
	}
	return place
}

// Counts reports whether the finding is an error that the task does not ignore.
func (f Finding) Counts() bool { return f.Severity == Error && f.Ignored == "" }

// sortFindings sorts by severity, errors first, then by place, rule and message.
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
