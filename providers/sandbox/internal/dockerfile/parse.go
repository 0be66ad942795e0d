package dockerfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// source is a parsed Dockerfile, validated as far as possible without an image.
type source struct {
	escape rune
	global []*instructions.ArgCommand // before the first FROM
	stages []*instructions.Stage
	notes  []string
}

// read parses the Dockerfile of a context.
func read(context fs.FS) (source, error) {
	text, err := fs.ReadFile(context, fileName)
	if errors.Is(err, fs.ErrNotExist) {
		return source{}, fmt.Errorf("there is no file named %s: %w", fileName, err)
	}
	if err != nil {
		return source{}, err
	}
	return parse(text)
}

// parse parses a Dockerfile. It returns all problems within single instructions.
func parse(text []byte) (source, error) {
	if line := zeroByte(text); line > 0 {
		return source{}, problemf(line, "a zero byte: this is not a text file")
	}
	parsed, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return source{}, withLocation(1, err)
	}
	src := source{escape: parsed.EscapeToken}
	if name, _, where, ok := parser.DetectSyntax(text); ok {
		src.note(firstLine(where), "the syntax image %s is not used: Rollout reads instructions as BuildKit's own frontend does", name)
	}
	var problems []error
	for _, node := range parsed.AST.Children {
		if err := src.add(node); err != nil {
			problems = append(problems, withLocation(node.StartLine, err))
		}
	}
	if len(problems) == 0 && len(src.stages) == 0 {
		problems = append(problems, problemf(0, "no FROM: name an image to begin with"))
	}
	return src, joinByLine(problems)
}

// add parses one instruction and adds it.
func (src *source) add(node *parser.Node) error {
	// A linter without checks: without any linter, a comment like "# check=x" in the middle of a
	// file makes the parser panic.
	parsed, err := instructions.ParseInstructionWithLinter(node, linter.New(&linter.Config{SkipAll: true}))
	if err != nil {
		return err
	}
	if stage, ok := parsed.(*instructions.Stage); ok {
		src.stages = append(src.stages, stage)
		return nil
	}
	if len(src.stages) == 0 {
		arg, ok := parsed.(*instructions.ArgCommand)
		if !ok {
			return fmt.Errorf("%s before the first FROM: only ARG is allowed there", upper(node.Value))
		}
		src.global = append(src.global, arg)
		return nil
	}
	command, ok := parsed.(instructions.Command)
	if !ok {
		return fmt.Errorf("%s is not an instruction of a stage", upper(node.Value))
	}
	src.stages[len(src.stages)-1].AddCommand(command)
	return nil
}

func (src *source) note(line int, format string, args ...any) {
	src.notes = append(src.notes, position(line)+fmt.Sprintf(format, args...))
}

// zeroByte returns the line of the first zero byte, or 0.
func zeroByte(text []byte) int {
	at := bytes.IndexByte(text, 0)
	if at < 0 {
		return 0
	}
	return 1 + bytes.Count(text[:at], []byte("\n"))
}

func firstLine(where []parser.Range) int {
	if len(where) == 0 {
		return 0
	}
	return max(where[0].Start.Line, 1)
}
