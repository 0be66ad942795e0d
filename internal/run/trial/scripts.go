package trial

import (
	"io"
	"io/fs"

	"github.com/org/rollout-action/internal/core/environment"
)

// scriptCommand returns the bash command that executes the script name in a directory at dir.
// Harbor executes such scripts directly, so that their first line names the interpreter; bash runs
// those without such a line.
func scriptCommand(dir string, files fs.FS, name string, asProgram bool) string {
	if asProgram && hasInterpreter(files, name) {
		return "exec " + dir + "/" + name
	}
	return "exec bash " + dir + "/" + name
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
