package prove

import (
	"bytes"
	"errors"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/org/rollout-action/internal/core/task"
)

// bashSyntax finds a script of tests/ or solution/ that bash cannot parse. It only warns: bash runs
// the commands before the mistake, and the parser here may not know all that bash accepts.
func bashSyntax(t *task.Task, f file) []Finding {
	if !strings.HasPrefix(f.name, "tests/") && !strings.HasPrefix(f.name, "solution/") || !isShell(f) || !runsInBash(t, f) ||
		!f.whole() || f.size > maxScript || bytes.Contains(f.head, []byte("\r\n")) { // rule crlf
		return nil
	}
	script := bytes.TrimPrefix(f.head, byteOrderMark) // rule bom
	_, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(bytes.NewReader(script), "")
	wrong, ok := errors.AsType[syntax.ParseError](err)
	if !ok {
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
