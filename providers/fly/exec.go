package fly

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/lib/awake"
	"github.com/org/rollout-action/providers/internal/hosted"
	"github.com/org/rollout-action/providers/internal/mailbox"
	"github.com/org/rollout-action/providers/internal/podinit"
)

// execTimeout is the timeout of commands, in seconds: Fly ends those of more than about 30 s.
const execTimeout = 25

// dial implements podinit.Dialer.
func (e *machineEnv) dial(context.Context) (io.ReadWriteCloser, error) {
	if err := e.CheckEnded(); err != nil {
		return nil, err
	}
	return mailbox.Dial(e.post), nil
}

// post implements mailbox.Post by a command in the machine.
func (e *machineEnv) post(ctx context.Context, letter string) (string, error) {
	if err := e.CheckEnded(); err != nil {
		return "", fmt.Errorf("%w: %w", mailbox.ErrGone, err)
	}
	if err := e.await(ctx); err != nil {
		return "", err
	}
	out, err := e.p.client.exec(ctx, e.app, e.machine, false, execRequest{Command: []string{podinit.Courier}, Stdin: letter, Timeout: execTimeout})
	switch {
	case isGone(err):
		return "", fmt.Errorf("%w: %w", mailbox.ErrGone, err)
	case err != nil:
		return "", err
	case out.ExitCode != 0:
		return "", fmt.Errorf("the command ended with code %d: %s", out.ExitCode, hosted.OneLine(out.Stderr))
	}
	return out.Stdout, nil
}

// pace keeps the commands of a machine below the limit of rate.
// Source: https://fly.io/docs/machines/api/working-with-machines-api/.
type pace struct {
	mu   sync.Mutex
	next time.Time
}

const (
	paceTime  = time.Second
	paceBurst = 3
)

// take returns how long to wait for the next command.
func (p *pace) take(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if earliest := now.Add(-(paceBurst - 1) * paceTime); p.next.Before(earliest) {
		p.next = earliest
	}
	wait := max(0, p.next.Sub(now))
	p.next = p.next.Add(paceTime)
	return wait
}

func (e *machineEnv) await(ctx context.Context) error {
	if e.p.options.Unpaced {
		return nil
	}
	if wait := e.pace.take(time.Now()); wait > 0 && !awake.Sleep(ctx, wait) {
		return ctx.Err()
	}
	return nil
}

// partSize is how many bytes of the program one command brings: a multiple of 3.
const partSize = 480 << 10

// savePart saves a part of the program, number $1, from its input. $2 is 1 if it is compressed.
// Doing it twice, even at once, has no further effect.
const savePart = failFunction + `umask 022
command -v base64 >/dev/null || fail "the image needs base64"
[ "$2" = 0 ] || command -v gzip >/dev/null || fail "` + noGzip + `"
mkdir -p ` + parts + ` || fail "` + parts + ` cannot be made"
new=` + parts + `/new.$$
base64 -d >$new && mv -f $new ` + parts + `/$1 || fail "the program cannot be written"
echo ` + done

// installProgram makes the program, $3 bytes, of $1 parts, and waits until it serves.
const installProgram = failFunction + `umask 022
if [ ! -x ` + podinit.Program + ` ]; then
	unpack=cat; [ "$2" = 0 ] || unpack="gzip -dc"
	new=` + podinit.Dir + `/new.$$ i=0
	while [ $i -lt "$1" ]; do cat ` + parts + `/$i || break; i=$((i+1)); done | $unpack >$new
	if [ "$(wc -c <$new)" -eq "$3" ]; then
		chmod 755 $new && cp -f $new $new.mail && chmod 755 $new.mail && mv -f $new.mail ` + podinit.Courier + ` && mv -f $new ` + podinit.Program + `
	fi
	[ -x ` + podinit.Program + ` ] || fail "the program cannot be made"
	rm -rf ` + parts + ` ` + podinit.Dir + `/new.*
fi
` + hosted.AwaitSocket + "echo " + done

const (
	failFunction = `fail() { echo "$1"; exit 1; }
`
	parts  = podinit.Dir + "/parts"
	done   = "done"
	noGzip = "there is no gzip"
)

var errNoGzip = errors.New(noGzip)

// install brings the guest's program to the machine, whose command becomes it.
func (e *machineEnv) install(ctx context.Context) error {
	program, err := e.p.program.Read()
	if err != nil {
		return err
	}
	err = e.send(ctx, program.Compressed, "1", len(program.Plain))
	if errors.Is(err, errNoGzip) {
		err = e.send(ctx, program.Plain, "0", len(program.Plain))
	}
	return err
}

func (e *machineEnv) send(ctx context.Context, content []byte, compressed string, size int) error {
	count := 0
	for rest := content; len(rest) > 0; count++ {
		n := min(len(rest), partSize)
		if err := e.script(ctx, base64.StdEncoding.EncodeToString(rest[:n]), savePart, strconv.Itoa(count), compressed); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return e.script(ctx, "", installProgram, strconv.Itoa(count), compressed, strconv.Itoa(size))
}

// script runs a script that prints done.
func (e *machineEnv) script(ctx context.Context, stdin, script string, args ...string) error {
	if err := e.await(ctx); err != nil {
		return err
	}
	command := append([]string{"/bin/sh", "-c", script, "sh"}, args...)
	out, err := e.p.client.exec(ctx, e.app, e.machine, true, execRequest{Command: command, Stdin: stdin, Timeout: execTimeout})
	if err != nil {
		return err
	}
	switch said := strings.TrimSpace(out.Stdout); said {
	case done:
		return nil
	case noGzip:
		return errNoGzip
	default:
		return permanent("a command ended with code %d: %s", out.ExitCode, hosted.OneLine(said+" "+out.Stderr))
	}
}
