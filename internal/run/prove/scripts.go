package prove

import (
	"bytes"
	"path"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/task"
)

// shellNames lists the extensions of shell scripts.
var shellNames = []string{".sh", ".bash"}

func isShell(f file) bool { return f.text && slices.Contains(shellNames, path.Ext(f.name)) }

var shebangMark = []byte("#!")

// shebang finds a test.sh or solve.sh that does not name its interpreter. Other scripts may be
// sourced, or passed to their interpreter. Terminal-bench passes both to bash.
func shebang(t *task.Task, f file) []Finding {
	if t.Rules().AsTyped {
		return nil
	}
	head := bytes.TrimPrefix(f.head, byteOrderMark) // rule bom
	if entry := f.name == testsScript || f.name == solutionScript; !entry || bytes.HasPrefix(head, shebangMark) || len(bytes.TrimSpace(head)) == 0 {
		return nil
	}
	return []Finding{{Rule: ruleShebang, Severity: Warning, File: f.name, Line: 1,
		Message: "the script does not begin with #!, so what runs it depends on who starts it",
		Hint:    "begin with #!/bin/bash, or the interpreter that it is written for"}}
}

var byteOrderMark = []byte("\ufeff")

// bom finds a byte order mark at the beginning of a shell script, which editors on Windows write.
// Shells and the kernel take it for a part of the first line. Bash prints an error about a first
// line that is a comment or #!, and continues; a command there does not run.
func bom(t *task.Task, f file) []Finding {
	entry := f.name == testsScript || f.name == solutionScript
	head, marked := bytes.CutPrefix(f.head, byteOrderMark)
	if !marked || !entry && !isShell(f) {
		return nil
	}
	finding := Finding{Rule: ruleBOM, Severity: Warning, File: f.name, Line: 1,
		Message: "the script begins with a byte order mark (BOM), which its shell takes for a part of the first line",
		Hint:    `save the file as UTF-8 without a mark: sed -i '1s/^\xef\xbb\xbf//' on it`}
	first, _, _ := bytes.Cut(head, []byte("\n"))
	first = bytes.TrimSpace(first)
	switch {
	case bytes.HasPrefix(first, shebangMark):
		finding.Message = "a byte order mark (BOM) stands before #!, so that the kernel does not see it"
		if entry && t.Rules().RunAsPrograms && !isShellShebang(first) {
			finding.Severity = Error // a shell runs it instead
		}
	case len(first) > 0 && first[0] != '#' && (strings.HasPrefix(f.name, "tests/") || strings.HasPrefix(f.name, "solution/")):
		finding.Severity = Error
	}
	return []Finding{finding}
}
