package trial

import (
	"io"
	"io/fs"
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
