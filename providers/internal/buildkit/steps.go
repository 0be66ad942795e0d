package buildkit

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/docker/pkg/jsonmessage"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	gateway "github.com/moby/buildkit/frontend/gateway/pb"
	"github.com/moby/buildkit/solver/errdefs"
)

// FailedLine returns the line of the Dockerfile at which a build failed, 0 if that is not known.
func FailedLine(dockerfile []byte, out *Lines, err error) int {
	for _, source := range errdefs.Sources(err) {
		if ranges := source.GetRanges(); len(ranges) > 0 {
			return int(ranges[0].GetStart().GetLine())
		}
	}
	parsed, unsound := parser.Parse(bytes.NewReader(dockerfile))
	if unsound != nil {
		return 0
	}
	if out.number > 0 && out.number <= len(parsed.AST.Children) {
		return parsed.AST.Children[out.number-1].StartLine
	}
	return lineOfStep(parsed.AST.Children, out.step)
}

// stepName is BuildKit's name of a step: the stage's name or number if there are several, the
// step's number in the stage, and its instruction.
var stepName = regexp.MustCompile(`^\[(?:(\S+) )?([0-9]+)/[0-9]+\] ([A-Z]+) `)

// lineOfStep returns the line of a step by BuildKit's name of it, 0 if it cannot be told.
func lineOfStep(instructions []*parser.Node, name string) int {
	named := stepName.FindStringSubmatch(name)
	if named == nil {
		return 0
	}
	wanted, _ := strconv.Atoi(named[2]) // digits
	stage, number, found := -1, 0, 0
	for _, node := range instructions {
		keyword := strings.ToUpper(node.Value)
		if keyword == "FROM" {
			stage, number = stage+1, 0
		}
		if !slices.Contains([]string{"FROM", "RUN", "COPY", "ADD", "WORKDIR"}, keyword) {
			continue // makes no step
		}
		if number++; number == wanted && keyword == named[3] && isStage(instructions, stage, named[1]) {
			if found > 0 {
				return 0
			}
			found = node.StartLine
		}
	}
	return found
}

// isStage reports whether a stage has this name: its own, stage-N, or none if it is the only one.
func isStage(instructions []*parser.Node, stage int, name string) bool {
	at := -1
	for _, node := range instructions {
		if !strings.EqualFold(node.Value, "FROM") {
			continue
		}
		if at++; at != stage {
			continue
		}
		if image := node.Next; image != nil && image.Next != nil && image.Next.Next != nil {
			return strings.EqualFold(image.Next.Next.Value, name) // AS name
		}
	}
	return name == "" || name == fmt.Sprintf("stage-%d", stage)
}

// InstructionAt returns the beginning of the instruction at a line of a Dockerfile, on one line.
func InstructionAt(dockerfile []byte, line int) string {
	const most = 60 // what the step printed matters more, and has to have room behind it
	parsed, err := parser.Parse(bytes.NewReader(dockerfile))
	if err != nil {
		return ""
	}
	for _, node := range parsed.AST.Children {
		if node.StartLine <= line && line <= node.EndLine {
			text := strings.Join(strings.Fields(node.Original), " ")
			if len(text) > most {
				text = strings.ToValidUTF8(text[:most], "") + "…"
			}
			return text
		}
	}
	return ""
}

// HintOf returns what to do about an error that shows that a builder is too old for the heredocs of
// a Dockerfile: it takes their lines for instructions, or copies a file "<<EOF". It returns "" for
// every other error.
func HintOf(dockerfile []byte, err error) string {
	said := strings.ToLower(err.Error())
	if !strings.Contains(said, "unknown instruction") && !strings.Contains(said, "<<") {
		return ""
	}
	parsed, unsound := parser.Parse(bytes.NewReader(dockerfile))
	if unsound != nil {
		return ""
	}
	for _, node := range parsed.AST.Children {
		if len(node.Heredocs) > 0 && ExitCode(err) == 0 {
			return "the builder seems too old for heredocs (<<): use Docker Engine 23, BuildKit 0.10 or Podman 4.8, or a later one, or write the Dockerfile without them"
		}
	}
	return ""
}

// ExitCode returns the exit code with which a RUN failed; 0 if something else did.
func ExitCode(err error) int {
	var classic *jsonmessage.JSONError
	if errors.As(err, &classic) && classic.Code != 0 {
		return classic.Code
	}
	var exit *gateway.ExitError
	if errors.As(err, &exit) {
		return int(exit.ExitCode)
	}
	if typed := new(errdefs.VertexError); err != nil && !errors.As(err, &typed) {
		if said := saidCode.FindStringSubmatch(err.Error()); said != nil {
			code, _ := strconv.Atoi(said[1]) // digits
			return code
		}
	}
	return 0
}

// saidCode is how BuildKit ends its error where that has no type (engines before 23), and how
// Podman ends its.
var saidCode = regexp.MustCompile(`: (?:exit code: |while running runtime: exit status )([0-9]{1,3})\s*$`)
