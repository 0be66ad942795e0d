package setup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/cli/command"
)

// asker asks people questions, one line each.
type asker struct {
	out   io.Writer
	lines chan string // closed at the end of the input
}

// maxAnswer bounds the length of an answer, in bytes.
const maxAnswer = 64 << 10

// newAsker reads answers from in until it ends. A read from a terminal cannot be interrupted, so it
// goes on until the process ends.
func newAsker(in io.Reader, out io.Writer) *asker {
	a := &asker{out: out, lines: make(chan string)}
	go func() {
		defer close(a.lines)
		scanner := bufio.NewScanner(in)
		scanner.Buffer(nil, maxAnswer)
		for scanner.Scan() {
			a.lines <- scanner.Text()
		}
	}()
	return a
}

// ask asks until accept takes the answer; an empty one is the default. Of an answer that accept
// refuses, it prints why and asks again, unless the error is not about the answer. It ends when ctx
// ends or the input does.
func (a *asker) ask(ctx context.Context, question, usual string, accept func(answer string) error) error {
	for {
		prompt := question
		if usual != "" {
			prompt += " [" + usual + "]"
		}
		fmt.Fprintf(a.out, "%s: ", prompt)
		var answer string
		select {
		case <-ctx.Done():
			fmt.Fprintln(a.out)
			return fmt.Errorf("%w: nothing was written", host.ErrCancelled)
		case line, ok := <-a.lines:
			if !ok {
				fmt.Fprintln(a.out)
				return command.Usagef("there was no answer: nothing was written (flags answer, too; see --help)")
			}
			if answer = strings.TrimSpace(line); answer == "" {
				answer = usual
			}
		}
		err := accept(answer)
		var wrong *host.UsageError
		if err == nil || !errors.As(err, &wrong) {
			return err
		}
		fmt.Fprintf(a.out, "  %v\n", err)
	}
}
