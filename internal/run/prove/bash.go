package prove

import (
	"bytes"
	"errors"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/org/rollout-action/internal/core/task"
)

// bashSyntax finds a script that bash cannot parse, for which err is the error. It only warns: bash
// runs the commands before the mistake, and the parser here may not know all that bash accepts.
func bashSyntax(t *task.Task, f file, err error) []Finding {
	wrong, ok := errors.AsType[syntax.ParseError](err)
	if !ok || !runsInBash(t, f) || bytes.Contains(f.head, []byte("\r\n")) { // rule crlf
		return nil
	}
	return []Finding{{Rule: ruleBashSyntax, Severity: Warning, File: f.name, Line: int(wrong.Pos.Line()), Column: int(wrong.Pos.Col()),
		Message: "bash probably cannot read the script: " + wrong.Text, Hint: "bash -n shows the error"}}
}

// runsInBash reports whether bash runs a script, and no other shell.
func runsInBash(t *task.Task, f file) bool {
	if entry := f.name == testsScript || f.name == solutionScript; entry && !t.Rules().RunAsPrograms {
		return true
	}
	first, _, _ := bytes.Cut(bytes.TrimPrefix(f.head, byteOrderMark), []byte("\n"))
	for _, word := range strings.Fields(strings.TrimPrefix(string(first), "#!")) {
		if bytes.HasPrefix(first, shebangMark) && (word == "bash" || strings.HasSuffix(word, "/bash")) {
			return true
		}
	}
	return false
}
