package hosted

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/org/rollout-action/providers/internal/podinit"
)

// installGuest reads the program, $1 bytes, waits until it serves, says so, and becomes its
// connector: what follows on its input is the connection. $2 is 1 if the program is compressed.
const installGuest = `umask 022
fail() { echo "$1"; exit 1; }
[ "$2" = 0 ] || command -v gzip >/dev/null || { echo "` + noGzip + `"; exit 1; }
if [ ! -x ` + podinit.Program + ` ]; then
	mkdir -p ` + podinit.Dir + ` || fail "` + podinit.Dir + ` cannot be made"
	new=` + podinit.Dir + `/new.$$
	if [ "$2" = 1 ]; then head -c "$1" | gzip -dc >$new; else head -c "$1" >$new; fi || fail "the program cannot be written"
	chmod 755 $new && cp -f $new ` + podinit.Connector + ` && mv -f $new ` + podinit.Program + ` || fail "the program cannot be moved"
else
	head -c "$1" >/dev/null
fi
` + AwaitSocket + `echo ` + guestReady + `
exec ` + podinit.Connector

// What installGuest prints in its first line.
const (
	guestReady = "ready"
	noGzip     = "there is no gzip"
)

// Stream is the input and output of a command in a sandbox.
type Stream interface {
	io.ReadWriteCloser
	// ReadString reads the output to a delimiter, as a bufio.Reader does.
	ReadString(delim byte) (string, error)
}

// Installer makes connections to the guest of one sandbox whose commands have streams. Its script
// is AwaitGuest, or another one with AwaitProgram.
type Installer struct {
	Program *Program

	installed atomic.Bool // the guest runs
	noGzip    atomic.Bool
}

// errInstall is in the chain of an error that the sandbox reported.
var errInstall = errors.New("start Rollout's program")

// Dial runs the guest's connector. The first time, the same command brings the program there.
func (i *Installer) Dial(ctx context.Context, run func(ctx context.Context, command ...string) (Stream, error)) (Stream, error) {
	if i.installed.Load() {
		return run(ctx, podinit.Connector)
	}
	s, err := i.install(ctx, run)
	if err == nil {
		i.installed.Store(true)
	}
	return s, err
}

// install sends the program to the sandbox and starts it.
func (i *Installer) install(ctx context.Context, run func(ctx context.Context, command ...string) (Stream, error)) (Stream, error) {
	program, err := i.Program.Read()
	if err != nil {
		return nil, err
	}
	content, compressed := program.Compressed, "1"
	if i.noGzip.Load() {
		content, compressed = program.Plain, "0"
	}
	s, err := run(ctx, "/bin/sh", "-c", installGuest, "sh", strconv.Itoa(len(content)), compressed)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	go func() { _, _ = s.Write(content) }() // its output says whether it has all
	line, err := s.ReadString('\n')
	switch line = strings.TrimSpace(line); {
	case line == guestReady:
		return s, nil
	case line == noGzip:
		i.noGzip.Store(true)
		fallthrough
	case line != "":
		err = fmt.Errorf("%w: %s", errInstall, OneLine(line))
	case err == nil || errors.Is(err, io.EOF):
		err = fmt.Errorf("%w: it printed nothing: the image needs sh, head, cat and sleep", errInstall)
	}
	s.Close()
	return nil, err
}
