package prove

import (
	"bytes"
	"path"
	"slices"
)

// shellNames are the extensions of shell scripts.
var shellNames = []string{".sh", ".bash"}

func isShell(f file) bool { return f.text && slices.Contains(shellNames, path.Ext(f.name)) }

var shebangMark = []byte("#!")

// shebang finds a test.sh or solve.sh that does not name its interpreter. Other scripts may be sourced, or passed to their
// interpreter.
func shebang(f file) []Finding {
	if entry := f.name == testsScript || f.name == solutionScript; !entry || bytes.HasPrefix(f.head, shebangMark) || len(bytes.TrimSpace(f.head)) == 0 {
		return nil
	}
	if after, ok := bytes.CutPrefix(f.head, []byte("\ufeff")); ok && bytes.HasPrefix(after, shebangMark) {
		return []Finding{{Rule: "shebang", Severity: Warning, File: f.name, Line: 1,
			Message: "a byte order mark stands before #!, so that the kernel does not see it", Hint: "save the file as UTF-8 without a mark"}}
	}
	return []Finding{{Rule: "shebang", Severity: Warning, File: f.name, Line: 1,
		Message: "the script does not begin with #!, so what runs it depends on who starts it",
		Hint:    "begin with #!/bin/bash, or the interpreter that it is written for"}}
}
