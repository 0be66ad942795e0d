package untrusted

import "strings"

// maxMessage is how much of an annotation's message GitHub's runner keeps, in characters; bytes are never fewer.
// Source: actions/runner, ExecutionContext.cs, _maxIssueMessageLength.
const maxMessage = 4096

var (
	commandData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	commandProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// CommandData is a block of text from outside (see Lines) as the message of a workflow command, cut to what the runner
// keeps. Source: actions/toolkit, core/src/command.ts.
func CommandData(s string) string {
	return commandData.Replace(Cut(strings.Join(Lines(s), "\n"), maxMessage))
}

// CommandProperty is text from outside as the value of a property of a workflow command: one line.
func CommandProperty(s string) string { return commandProperty.Replace(Line(s)) }
