package podinit

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/awake"
	"github.com/org/rollout-action/internal/lib/egress"
	"github.com/org/rollout-action/providers/internal/initwire"
)

// Environment is an environment in a container: an environment.Environment but for ID, Stop,
// Destroy and Cost, with the optional interfaces LoopbackListener, TerminalRunner, MemoryReporter,
// ProcessReporter and ReadinessReporter.
type Environment struct {
	opts     Options
	link     *link
	session  *yamux.Session
	hostname string
	busy     bool // see environment.Readiness
	commands atomic.Int64

	mu        sync.Mutex
	proxy     *egress.Proxy
	proxyVars map[string]string // that tell commands to use the proxy
	proxied   bool              // they do
	listeners map[int64]*listener
	closed    bool
}

const (
	// defaultPath is the PATH of images that set none.
	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	// killTime bounds the ending of a command and of all that it started, without the time that
	// resuming a connection takes.
	killTime = 2 * time.Minute
)

// Start connects to the guest, copies files and runs the image's ENTRYPOINT, as specified by
// environment.Provider.CreateEnvironment. The container must have been started just now, and have
// run nothing else. If Start fails, the caller ends the container.
func Start(ctx context.Context, dial Dialer, opts Options) (*Environment, error) {
	if opts.Explain == nil {
		opts.Explain = func(context.Context) error { return nil }
	}
	e := &Environment{opts: opts, link: newLink(), listeners: map[int64]*listener{}}
	e.link.beats = true
	if err := e.start(ctx, dial); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

func (e *Environment) start(ctx context.Context, dial Dialer) error {
	if err := e.connect(ctx, dial); err != nil {
		return e.failed(ctx, environment.KindStart, "connect to the container", err)
	}
	answer, err := e.ask(ctx, request{Op: opSetUp, WorkDir: e.opts.Image.WorkDir, User: e.opts.Image.User, Env: e.environ(), Bare: e.opts.Bare})
	if err != nil {
		failure := e.failed(ctx, environment.KindStart, "begin in the container", err)
		if known := new(environment.Error); errors.As(failure, &known) {
			switch {
			case answer.BadWorkDir:
				known.Hint = "the image's WORKDIR must be a directory, or a path at which one can be created"
			case answer.NoUser:
				known.Hint = "the image's USER must be in its /etc/passwd, and the group in its /etc/group"
			case answer.Lacking:
				known.Hint = "the image needs bash"
			}
		}
		return failure
	}
	e.hostname = answer.Hostname
	if err := e.SetProxy(ctx, e.opts.Network); err != nil {
		return err
	}
	if e.opts.Connected != nil {
		if err := e.opts.Connected(ctx, e); err != nil {
			return err
		}
	}
	if err := e.CopyTo(ctx, e.opts.Files...); err != nil {
		return err
	}
	return e.runEntrypoint(ctx)
}

// connect makes the encrypted connection.
func (e *Environment) connect(ctx context.Context, dial Dialer) error {
	d := &dialer{dial: dial, key: newKey(), first: true, link: e.link, explain: e.opts.Explain}
	if err := d.connect(ctx); err != nil {
		return err
	}
	config, err := d.key.configuration(clientSide, guestSide)
	if err != nil {
		return err
	}
	encrypted := tls.Client(e.link, config)
	if err := encrypted.HandshakeContext(ctx); err != nil {
		return cmp.Or(e.link.ended(), err)
	}
	if e.session, err = yamux.Client(encrypted, multiplexing()); err != nil {
		return err
	}
	go e.accept()
	return nil
}

// Close ends the connection. Processes live on; later requests to the guest fail with KindLost.
func (e *Environment) Close() {
	e.mu.Lock()
	e.closed = true
	proxy := e.proxy
	listeners := slices.Collect(maps.Values(e.listeners))
	e.mu.Unlock()
	if proxy != nil {
		_ = proxy.Close()
	}
	for _, l := range listeners {
		_ = l.Close() // it may have been closed before
	}
	e.link.end(errClosed)
	if e.session != nil {
		e.session.Close()
	}
}

var errClosed = errors.New("the connection to the container was closed")

// open begins a stream with a request. The stream is closed when ctx ends; the caller calls done
// when it needs it no more.
func (e *Environment) open(ctx context.Context, r request) (stream *yamux.Stream, done func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if e.session == nil {
		return nil, nil, errClosed
	}
	stream, err = e.session.OpenStream()
	if err != nil {
		return nil, nil, cmp.Or(e.link.ended(), err)
	}
	stop := context.AfterFunc(ctx, func() { reset(stream) })
	if err := writeMessage(stream, r); err != nil {
		stop()
		reset(stream)
		return nil, nil, e.broken(ctx, err)
	}
	return stream, func() { stop(); reset(stream) }, nil
}

// reset ends a stream in both directions: closing alone would end only writing.
func reset(stream *yamux.Stream) {
	_ = stream.SetDeadline(time.Unix(1, 0)) // what reads or writes returns
	stream.Close()
}

// broken returns why a stream failed.
func (e *Environment) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return cmp.Or(e.link.ended(), err)
}

// ask sends a request and returns its reply.
func (e *Environment) ask(ctx context.Context, r request) (reply, error) {
	stream, done, err := e.open(ctx, r)
	if err != nil {
		return reply{}, err
	}
	defer done()
	var answer reply
	if err := readMessage(stream, &answer); err != nil {
		return reply{}, e.broken(ctx, err)
	}
	return answer, problemOf(answer)
}

// guestError is a request's failure that the guest reported.
type guestError struct{ answer reply }

func (e *guestError) Error() string { return e.answer.Problem }

func (e *guestError) Is(target error) bool {
	return e.answer.Kind == initwire.NotFound && target == fs.ErrNotExist
}

// endedError says that the environment has ended with its ENTRYPOINT.
type endedError struct{ ending }

func (e *endedError) Error() string { return "the image's ENTRYPOINT has ended" }

func problemOf(answer reply) error {
	switch {
	case answer.Ended != nil:
		return &endedError{*answer.Ended}
	case answer.Problem != "":
		return &guestError{answer}
	}
	return nil
}

// failed returns the environment.Error for the error of a request. It returns nil if err is nil.
func (e *Environment) failed(ctx context.Context, kind environment.Kind, doing string, err error) error {
	refused, ended, known := new(guestError), new(endedError), new(environment.Error)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	case errors.As(err, &ended):
		return e.entrypointError(ended.ending)
	case errors.As(err, &refused):
		return &environment.Error{Kind: kind, Err: fmt.Errorf("%s: %w", doing, err)}
	case errors.As(err, &known):
		return fmt.Errorf("%s: %w", doing, err)
	}
	return e.lost(doing, err)
}

// explainTime bounds finding out why a container has gone.
const explainTime = 30 * time.Second

// lost returns the error of a container that does not answer any more.
func (e *Environment) lost(doing string, err error) error {
	ctx, cancel := awake.WithTimeout(context.Background(), explainTime)
	defer cancel()
	if why := e.opts.Explain(ctx); why != nil {
		if known := new(environment.Error); errors.As(why, &known) {
			return why
		}
		err = why
	}
	return &environment.Error{Kind: environment.KindLost, Err: fmt.Errorf("%s: %w", doing, err)}
}

// entrypointError returns the error of an environment that ended because its ENTRYPOINT ended.
func (e *Environment) entrypointError(end ending) error {
	failure := &environment.Error{
		Kind: environment.KindStart, Output: end.Output,
		Err:  fmt.Errorf("the image's ENTRYPOINT %q has ended (exit code %d), and the environment with it", e.opts.Image.Entrypoint, end.Code),
		Hint: "an ENTRYPOINT must run the command that it is given, as exec \"$@\" does",
	}
	if end.Problem != "" {
		failure.Err = fmt.Errorf("the image's ENTRYPOINT %q cannot be run: %s", e.opts.Image.Entrypoint, end.Problem)
		failure.Hint = execHint
	}
	if end.OutOfMemory {
		failure.Err, failure.Hint = fmt.Errorf("%w: %w", failure.Err, environment.ErrOutOfMemory), ""
	}
	if end.Ran {
		failure.Kind = environment.KindLost
	}
	return failure
}

const execHint = "the image needs bash, and the working directory and user must exist in it"

func (e *Environment) runEntrypoint(ctx context.Context) error {
	image := e.opts.Image
	if len(image.Entrypoint) == 0 {
		return nil
	}
	var within time.Duration
	if image.Healthcheck == nil {
		within = environment.HandoverTime
	}
	answer, err := e.ask(ctx, request{Op: opEntrypoint, Within: within, Command: &initwire.Command{
		Args: slices.Concat(image.Entrypoint, environment.Idle()), Env: e.environ(), Dir: image.WorkDir, User: image.User,
	}})
	e.busy = answer.Busy
	return e.failed(ctx, environment.KindStart, "run the image's ENTRYPOINT", err)
}

// environ returns the variables of a command: the image's, the environment's, and those of more, of
// which later ones win. The result is sorted.
func (e *Environment) environ(more ...map[string]string) []string {
	all := map[string]string{"PATH": defaultPath}
	if e.hostname != "" {
		all["HOSTNAME"] = e.hostname
	}
	for _, v := range e.opts.Image.Env {
		if name, value, ok := strings.Cut(v, "="); ok {
			all[name] = value
		}
	}
	maps.Copy(all, e.opts.Env)
	for _, m := range more {
		maps.Copy(all, m)
	}
	list := make([]string, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, name+"="+all[name])
	}
	return list
}

// Readiness implements environment.ReadinessReporter.
func (e *Environment) Readiness() environment.Readiness {
	return environment.Readiness{Healthcheck: e.opts.Image.Healthcheck, Busy: e.busy}
}

// countTime bounds the time to count processes and kills for messages and for the cause of a
// failure.
const countTime = 10 * time.Second

// OOMKills implements environment.MemoryReporter.
func (e *Environment) OOMKills(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	answer, err := e.ask(ctx, request{Op: opMemory})
	if ended := new(endedError); errors.As(err, &ended) && ended.OutOfMemory {
		return max(1, answer.Count)
	}
	return answer.Count
}

// Processes implements environment.ProcessReporter: a limit of the pod is known when hardly any
// process can begin.
func (e *Environment) Processes(ctx context.Context) (n, limit int64) {
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	answer, err := e.ask(ctx, request{Op: opProcesses})
	if err != nil {
		return 0, 0
	}
	return int64(answer.Count), int64(answer.Limit)
}

// KillAll ends all processes but the guest.
func (e *Environment) KillAll(ctx context.Context) error {
	_, err := e.ask(ctx, request{Op: opKillAll})
	if errors.As(err, new(*endedError)) {
		return nil
	}
	return e.failed(ctx, environment.KindLost, "end all processes of the container", err)
}

// Stay makes the guest stay after its last connection has ended.
func (e *Environment) Stay(ctx context.Context) error {
	_, err := e.ask(ctx, request{Op: opStay})
	if errors.As(err, new(*endedError)) {
		return nil
	}
	return e.failed(ctx, environment.KindLost, "keep the container", err)
}

// accept takes the streams that the guest opens.
func (e *Environment) accept() {
	for {
		stream, err := e.session.AcceptStream()
		if err != nil {
			return
		}
		go e.takeConnection(stream)
	}
}

func (e *Environment) takeConnection(stream *yamux.Stream) {
	var r request
	if err := readMessage(stream, &r); err != nil || r.Op != opConnection {
		reset(stream)
		return
	}
	e.mu.Lock()
	l := e.listeners[r.ID]
	e.mu.Unlock()
	if l == nil || !l.deliver(stream) {
		reset(stream)
	}
}

var (
	_ environment.TerminalRunner    = (*Environment)(nil)
	_ environment.LoopbackListener  = (*Environment)(nil)
	_ environment.MemoryReporter    = (*Environment)(nil)
	_ environment.ProcessReporter   = (*Environment)(nil)
	_ environment.ReadinessReporter = (*Environment)(nil)
	_ net.Listener                  = (*listener)(nil)
	_ io.Closer                     = (*listener)(nil)
)
