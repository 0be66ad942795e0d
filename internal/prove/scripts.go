package prove

import (
	"bytes"
	"path"
	"slices"
)

// shellNames end names of scripts for a shell.
var shellNames = []string{".sh", ".bash"}

func isShell(f file) bool { return f.text && slices.Contains(shellNames, path.Ext(f.name)) }

var mark = []byte("#!")

// shebang finds a test.sh or solve.sh that does not say what it is written for. Other scripts may be meant to be sourced, or are
// handed to their interpreter.
func shebang(f file) []Finding {
	if entry := f.name == testsScript || f.name == solutionScript; !entry || bytes.HasPrefix(f.head, mark) || len(bytes.TrimSpace(f.head)) == 0 {
		return nil
	}
	if after, ok := bytes.CutPrefix(f.head, []byte("\ufeff")); ok && bytes.HasPrefix(after, mark) {
		return []Finding{{Rule: "shebang", Severity: Warning, File: f.name, Line: 1,
			Message: "a byte order mark stands before #!, so that the kernel does not see it", Hint: "save the file as UTF-8 without a mark"}}
	}
	return []Finding{{Rule: "shebang", Severity: Warning, File: f.name, Line: 1,
		Message: "the script does not begin with #!, so what runs it depends on who starts it",
		Hint:    "begin with #!/bin/bash, or whatever it is written for"}}
}
