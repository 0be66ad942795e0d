package untrusted

import "strings"

// maxMessage is the length in characters to which GitHub's runner cuts an annotation's message. As
// a limit of bytes it is at least as strict.
// Source: actions/runner, ExecutionContext.cs, _maxIssueMessageLength.
const maxMessage = 4096

var (
	commandData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	commandProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// CommandData returns a block of untrusted text (see Lines) as the message of a workflow command,
// cut to the runner's limit.
// Source: actions/toolkit, core/src/command.ts.
func CommandData(s string) string {
	return commandData.Replace(Cut(strings.Join(Lines(s), "\n"), maxMessage))
}

// CommandProperty returns untrusted text as the value of a workflow command's property: one line.
func CommandProperty(s string) string { return commandProperty.Replace(Line(s)) }
