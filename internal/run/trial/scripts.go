package trial

import (
	"io"
	"io/fs"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/task"
)

// scriptCommand returns the bash command that executes the script name in a directory at dir.
// Harbor executes such scripts directly, so that their first line names the interpreter; bash runs
// those without such a line.
func scriptCommand(dir string, files fs.FS, name string, rules task.Rules) string {
	command := "exec bash " + dir + "/" + name
	switch {
	case rules.AsTyped:
		// A login shell, and in it the one that asciinema records. Both complain without a
		// terminal, which would show the two streams as one.
		return `exec 9>&1 2>/dev/null; exec bash -lc 'exec bash -ic "exec >&9 2>&1 9>&-; ` + command + `"'`
	case rules.RunAsPrograms && hasInterpreter(files, name):
		return "exec " + dir + "/" + name
	}
	return command
}

// bundledScript runs the tests that an image has, as Harbor does: as a program, which its build may
// have forgotten to make of it.
const bundledScript = "[ -x " + environment.TestsDir + "/" + testScript + " ] || chmod +x " + environment.TestsDir + "/" + testScript + " || exec bash " + environment.TestsDir + "/" + testScript +
	"; exec " + environment.TestsDir + "/" + testScript

// hasInterpreter reports whether a file begins with #!.
func hasInterpreter(files fs.FS, name string) bool {
	f, err := files.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	var head [2]byte
	_, err = io.ReadFull(f, head[:])
	return err == nil && string(head[:]) == "#!"
}
