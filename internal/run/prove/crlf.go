package prove

import (
	"bytes"
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/org/rollout-action/internal/core/task"
)

// crlf finds Windows line ends in shell scripts, where the shell takes the carriage return for a
// part of the command. It accepts them in comments, quotes and here-documents, where they may be
// wanted. They are errors in tests/ and solution/, which run as they are. Files of environment/ may
// be converted while the image is built, or be the problem that the agent has to solve.
//
// It does not check programs in other languages, because python, node and the like read such line
// ends. Only the kernel does not, in the line that names the interpreter, which matters for test.sh
// and solve.sh of tasks that execute them directly.
func crlf(t *task.Task, f file) []Finding {
	at := bytes.Index(f.head, []byte("\r\n"))
	if at < 0 {
		return nil
	}
	entry := f.name == testsScript || f.name == solutionScript
	first, _, _ := bytes.Cut(f.head, []byte("\n"))
	finding := Finding{Rule: ruleCRLF, Severity: Error, File: f.name, Line: lineAt(f.head, at),
		Message: "the script has Windows line ends (CRLF), which its shell takes for a part of each command",
		Hint:    "sed -i 's/\\r$//' on it, and a .gitattributes with: *.sh text eol=lf"}
	switch {
	case entry && t.Rules().RunAsPrograms && bytes.HasPrefix(first, shebangMark) && bytes.HasSuffix(first, []byte("\r")):
		finding.Line, finding.Message = 1, "the first line ends with a carriage return (CRLF), which Linux takes for a part of the interpreter's name"
		return []Finding{finding}
	case !isShell(f) || !isShellShebang(first):
		return nil
	}
	if !strings.HasPrefix(f.name, "tests/") && !strings.HasPrefix(f.name, "solution/") || !f.whole() || f.size > maxScript {
		finding.Severity = Warning
	}
	if f.whole() && f.size <= maxScript {
		stray, known := firstStrayReturn(f.head)
		switch {
		case !known:
			finding.Severity = Warning
		case stray < 0:
			return nil
		default:
			finding.Line = lineAt(f.head, stray)
		}
	}
	return []Finding{finding}
}

// isShellShebang reports whether a shell runs a script with this first line.
func isShellShebang(first []byte) bool {
	if !bytes.HasPrefix(first, shebangMark) {
		return true
	}
	words := strings.Fields(string(first[len(shebangMark):]))
	for _, w := range words {
		switch path.Base(w) {
		case "sh", "bash", "dash", "ash", "zsh", "ksh":
			return true
		}
	}
	return false
}

// firstStrayReturn returns the offset of the first carriage return that is a part of a command, or
// -1. known is false for a script that cannot be parsed with or without them.
func firstStrayReturn(script []byte) (at int, known bool) {
	// The shell takes a carriage return for a letter, the parser for white space.
	letters := bytes.ReplaceAll(script, []byte("\r"), []byte("R"))
	parsed, err := syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true)).Parse(bytes.NewReader(letters), "")
	if err != nil {
		without := bytes.ReplaceAll(script, []byte("\r"), nil)
		_, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(bytes.NewReader(without), "")
		return bytes.IndexByte(script, '\r'), err == nil // as in "then\r"
	}
	changes := make([]int, len(script)+1) // how many comments, quotes and the like begin or end at a byte
	span := func(from, to int) {
		if from < to && to < len(changes) {
			changes[from]++
			changes[to]--
		}
	}
	cover := func(node syntax.Node) { span(int(node.Pos().Offset()), int(node.End().Offset())) }
	syntax.Walk(parsed, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.Comment:
			cover(n)
		case *syntax.SglQuoted, *syntax.DblQuoted:
			cover(n)
		case *syntax.Redirect:
			if n.Hdoc != nil {
				cover(n.Hdoc)
				if len(n.Hdoc.Parts) == 0 {
					break
				}
				cover(n.Word) // if both delimiters have one, they are equal
				if end := int(n.Hdoc.End().Offset()); end < len(script) {
					if line := bytes.IndexByte(script[end:], '\n'); line >= 0 {
						span(end, end+line)
					} else {
						span(end, len(script))
					}
				}
			}
		}
		return true
	})
	harmless := 0
	for i, c := range script {
		if harmless += changes[i]; c == '\r' && harmless == 0 {
			return i, true
		}
	}
	return -1, true
}
