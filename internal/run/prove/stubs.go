package prove

import "bytes"

// stubs holds a line of each file that rollout new task writes. An author who fills in the file
// replaces the line.
var stubs = map[string]string{
	instructionFile: "Write here what the agent is to do.",
	solutionScript:  `echo "solution/solve.sh is to be written"`,
	testsScript:     `echo "tests/test.sh is to be written"`,
}

// stub finds a file that still has its stub.
func stub(f file) []Finding {
	line, ok := stubs[f.name]
	if !ok {
		return nil
	}
	at := bytes.Index(f.head, []byte(line))
	if at < 0 {
		return nil
	}
	return []Finding{{Rule: ruleStub, Severity: Warning, File: f.name, Line: lineAt(f.head, at),
		Message: "the file is as rollout new task wrote it", Hint: "fill it in, and remove this line"}}
}
