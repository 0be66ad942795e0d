package prove

import "bytes"

// stubs are lines of the files that rollout new task writes. Who fills the files in replaces them.
var stubs = map[string]string{
	instructionFile: "Write here what the agent is to do.",
	solutionScript:  `echo "solution/solve.sh is to be written"`,
	testsScript:     `echo "tests/test.sh is to be written"`,
}

// stub finds a file that was not filled in.
func stub(f file) []Finding {
	line, ok := stubs[f.name]
	if !ok {
		return nil
	}
	at := bytes.Index(f.head, []byte(line))
	if at < 0 {
		return nil
	}
	return []Finding{{Rule: "stub", Severity: Warning, File: f.name, Line: lineAt(f.head, at),
		Message: "the file is as rollout new task wrote it", Hint: "fill it in, and remove this line"}}
}
