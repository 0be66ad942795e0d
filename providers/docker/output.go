package docker

import (
	"bytes"
	"io"
	"slices"

	"github.com/org/rollout-action/internal/core/environment"
)

// maxHeld is how much output is held back while the prologue's line is looked for.
const maxHeld = 1 << 20

// output sorts a command's output: the prologue's line says that the command began, all the rest
// goes to the writers. Nothing goes there before that line was seen, for what an engine prints
// about a command that it could not start is no output of the command. Its methods are for one
// goroutine.
type output struct {
	mark []byte // the prologue's line

	sinks    *environment.Sinks
	out, err io.Writer
	open     bool
	heldOut  []byte
	heldErr  []byte
}

func newOutput(mark string, stdout, stderr io.Writer) *output {
	sinks := environment.NewSinks(stdout, stderr)
	return &output{mark: []byte(mark + "\n"), sinks: sinks, out: sinks.Stdout, err: sinks.Stderr}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func (o *output) stdout(p []byte) (int, error) {
	if o.open {
		return o.out.Write(p)
	}
	o.heldOut = append(o.heldOut, p...)
	o.findMark()
	return len(p), nil
}

func (o *output) stderr(p []byte) (int, error) {
	if o.open {
		return o.err.Write(p)
	}
	o.heldErr = append(o.heldErr, p...)
	o.findMark()
	return len(p), nil
}

// findMark searches for the prologue's line in the output held back; anything before it comes from
// the image's BASH_ENV.
func (o *output) findMark() {
	from := bytes.Index(o.heldErr, o.mark)
	if from < 0 {
		if len(o.heldOut)+len(o.heldErr) > maxHeld {
			o.release()
		}
		return
	}
	o.heldErr = slices.Delete(o.heldErr, from, from+len(o.mark))
	o.release()
}

func (o *output) release() {
	o.open = true
	_, _ = o.out.Write(o.heldOut)
	_, _ = o.err.Write(o.heldErr)
	o.heldOut, o.heldErr = nil, nil
}

// close waits for the writers and returns the first error of one.
func (o *output) close() error { return o.sinks.Close() }
