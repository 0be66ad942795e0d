package docker

import (
	"bytes"
	"io"
	"strconv"
	"strings"

	"github.com/org/rollout-action/internal/environment"
)

// maxHeld is how much output is held back while the prologue's line is looked for.
const maxHeld = 1 << 20

// output sorts a command's output: the prologue's line says that the command began, all the rest
// goes to the writers. Nothing goes there before that line was seen, for what an engine prints about
// a command that it could not start is no output of the command.
// Its methods, but for began, are for one goroutine.
type output struct {
	mark  []byte
	began chan processStart // receives one value when the prologue's line arrives

	sinks    *environment.Sinks
	out, err io.Writer
	open     bool
	heldOut  []byte
	heldErr  []byte
}

// processStart tells a process from all that were and will be. The zero value is unknown.
type processStart struct {
	pid   int
	ticks int64 // clock ticks from the start of the machine to that of the process
}

func newOutput(mark string, stdout, stderr io.Writer) *output {
	sinks := environment.NewSinks(stdout, stderr)
	return &output{mark: []byte(mark), began: make(chan processStart, 1), sinks: sinks, out: sinks.Stdout, err: sinks.Stderr}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func (o *output) stdout(p []byte) (int, error) {
	if o.open {
		return o.out.Write(p)
	}
	o.heldOut = append(o.heldOut, p...)
	o.look()
	return len(p), nil
}

func (o *output) stderr(p []byte) (int, error) {
	if o.open {
		return o.err.Write(p)
	}
	o.heldErr = append(o.heldErr, p...)
	o.look()
	return len(p), nil
}

// look searches for the prologue's line in what was held back; what is before it comes from the
// image's BASH_ENV.
func (o *output) look() {
	from := bytes.Index(o.heldErr, o.mark)
	length := -1
	if from >= 0 {
		length = bytes.IndexByte(o.heldErr[from:], '\n')
	}
	if length < 0 {
		if len(o.heldOut)+len(o.heldErr) > maxHeld {
			o.release()
		}
		return
	}
	line := string(o.heldErr[from+len(o.mark) : from+length])
	o.heldErr = append(o.heldErr[:from:from], o.heldErr[from+length+1:]...)
	o.began <- parseStat(line)
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

// parseStat reads fields 1 and 22 of a line of /proc/<pid>/stat. The name in field 2 may hold spaces
// and parentheses.
func parseStat(line string) processStart {
	pid, _, _ := strings.Cut(line, " ")
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(fields) < 20 {
		return processStart{}
	}
	n, err1 := strconv.Atoi(pid)
	ticks, err2 := strconv.ParseInt(fields[19], 10, 64)
	if err1 != nil || err2 != nil {
		return processStart{}
	}
	return processStart{pid: n, ticks: ticks}
}
