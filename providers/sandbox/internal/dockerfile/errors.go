package dockerfile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/parser"

	"github.com/org/rollout-action/providers/internal/buildcontext"
)

const (
	fileName   = buildcontext.Dockerfile
	ignoreName = buildcontext.IgnoreFile
)

// Problem is an invalid or unsupported part of the Dockerfile. Build returns all problems that it
// can find without execution, joined; errors.As finds the first.
type Problem struct {
	Line int // from 1; 0 for the file as a whole
	Err  error
}

// Error returns the position and the error: "Dockerfile:3: …".
func (p *Problem) Error() string { return position(p.Line) + p.Err.Error() }

// Unwrap returns the error without its position.
func (p *Problem) Unwrap() error { return p.Err }

func position(line int) string {
	if line == 0 {
		return fileName + ": "
	}
	return fmt.Sprintf("%s:%d: ", fileName, line)
}

func problemf(line int, format string, args ...any) error {
	return &Problem{Line: line, Err: fmt.Errorf(format, args...)}
}

// at adds a line number to an error, unless it has one.
func at(line int, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*Problem](err); ok {
		return err
	}
	if _, ok := errors.AsType[*StepError](err); ok {
		return err
	}
	return &Problem{Line: line, Err: err}
}

// withLocation adds a line number to an error of the parser: the parser's, or else line.
func withLocation(line int, err error) error {
	if where, ok := errors.AsType[*parser.LocationError](err); ok && len(where.Locations) > 0 && len(where.Locations[0]) > 0 {
		line = max(where.Locations[0][0].Start.Line, 1)
	}
	return &Problem{Line: line, Err: err}
}

// joinByLine joins problems, sorted by line.
func joinByLine(problems []error) error {
	var flat []error
	for _, err := range problems {
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			flat = append(flat, joined.Unwrap()...)
		} else {
			flat = append(flat, err)
		}
	}
	slices.SortStableFunc(flat, func(a, b error) int { return cmp.Compare(lineOf(a), lineOf(b)) })
	return errors.Join(flat...)
}

func lineOf(err error) int {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.Line
	}
	return 0
}

// StepError reports that a RUN instruction failed.
type StepError struct {
	Line        int    // where the instruction begins
	Instruction string // as in the file, on one line, shortened if long
	ExitCode    int    // never 0
	Output      string // the beginning and the end of stdout and stderr together, about 4 KiB
}

// Error returns the position, the instruction, the exit code and the output, on several lines.
func (e *StepError) Error() string {
	text := fmt.Sprintf("%s%s: exit code %d", position(e.Line), e.Instruction, e.ExitCode)
	if e.Output == "" {
		return text
	}
	return text + "\n" + strings.TrimRight(e.Output, "\n")
}
