//go:build linux

package initclient

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/org/rollout-action/internal/lib/excerpt"
	"github.com/org/rollout-action/providers/internal/initwire"
)

// ErrGone reports that process 1 has ended, for whatever reason.
var ErrGone = errors.New("the environment is not running any more")

// Client is the connection to process 1 of an environment.
type Client struct {
	// Stderr has what process 1 printed to its standard error, if its starter writes it here.
	Stderr Tail
	// Stall is how long a writer of output may make no progress after the exit of its command,
	// before the rest of the output is discarded. 0: 5 s.
	Stall time.Duration

	conn     *initwire.Conn
	kill     func()        // sends SIGKILL to process 1
	received chan struct{} // closed when nothing more can be received
	ended    chan struct{} // closed when process 1, and everything with it, has ended and received is closed

	mu      sync.Mutex
	last    int64
	waiting map[int64]chan initwire.Answer
	closed  bool
}

// New returns a Client that is not connected yet.
func New() *Client {
	return &Client{received: make(chan struct{}), ended: make(chan struct{}), waiting: map[int64]chan initwire.Answer{}}
}

// Connect begins to receive the answers of process 1. kill ends process 1, and wait returns when
// process 1 has ended.
func (b *Client) Connect(conn *initwire.Conn, kill, wait func()) {
	b.conn, b.kill = conn, kill
	go b.receive()
	go func() {
		wait()
		<-b.received
		close(b.ended)
	}()
}

// Ended returns a channel that is closed when process 1, and everything with it, has ended.
func (b *Client) Ended() <-chan struct{} { return b.ended }

// SetupError says that process 1 could not create the environment. Refused: the kernel does not
// permit something that is needed. Lacking: the image does not have a program that is needed.
// WorkDir: the image's working directory cannot be created. Account: the image's user is not in it.
type SetupError struct {
	Refused, Lacking, WorkDir, Account bool
	Problem                            string
}

func (e *SetupError) Error() string { return e.Problem }

// SetUp sends the first message, with the files that go with it, and returns the answer when
// process 1 is ready. A *SetupError describes the failure of process 1. It must be called once,
// before anything else.
func (b *Client) SetUp(ctx context.Context, setup initwire.Setup, files ...*os.File) (initwire.Answer, error) {
	ready := b.register(0)
	if err := b.conn.Send(setup, files...); err != nil {
		return initwire.Answer{}, fmt.Errorf("set an environment up: %w", err)
	}
	var answer initwire.Answer
	select {
	case answer = <-ready:
	case <-b.ended:
		var ok bool
		if answer, ok = pollAnswer(ready); !ok {
			return initwire.Answer{}, fmt.Errorf("an environment ended before it was ready: %s", b.Stderr.String())
		}
	case <-ctx.Done():
		return initwire.Answer{}, ctx.Err()
	}
	if answer.Problem != "" {
		return initwire.Answer{}, &SetupError{
			Refused: answer.Kind == initwire.Refused, Lacking: answer.Kind == initwire.NotStarted, WorkDir: answer.Kind == initwire.NoWorkDir,
			Account: answer.Kind == initwire.NoAccount,
			Problem: answer.Problem,
		}
	}
	return answer, nil
}

// pollAnswer returns the answer that came before the environment ended, if there is one: a select
// may choose the end although both are there.
func pollAnswer(answers <-chan initwire.Answer) (answer initwire.Answer, ok bool) {
	select {
	case answer = <-answers:
		return answer, true
	default:
		return answer, false
	}
}

// receive passes answers to the goroutines that wait for them.
func (b *Client) receive() {
	defer close(b.received)
	for {
		var answer initwire.Answer
		files, err := b.conn.Receive(&answer)
		if err != nil {
			b.kill() // it cannot be reached any more
			return
		}
		answer.Files = files
		b.mu.Lock()
		waiting := b.waiting[answer.ID]
		delete(b.waiting, answer.ID)
		b.mu.Unlock()
		if waiting != nil {
			waiting <- answer
			continue
		}
		for _, f := range files {
			f.Close()
		}
	}
}

// register creates the channel for the answer to a request.
func (b *Client) register(id int64) chan initwire.Answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := make(chan initwire.Answer, 1)
	b.waiting[id] = c
	return c
}

// Send sends a request. It closes the files that go with it.
func (b *Client) Send(request initwire.Request, files ...*os.File) (int64, <-chan initwire.Answer, error) {
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	b.mu.Lock()
	b.last++
	request.ID = b.last
	b.mu.Unlock()
	answers := b.register(request.ID)
	if err := b.conn.Send(request, files...); err != nil {
		if !b.Running() || errors.Is(err, syscall.EPIPE) {
			err = ErrGone
		}
		return 0, nil, err
	}
	return request.ID, answers, nil
}

// Call sends a request and waits for its answer.
func (b *Client) Call(ctx context.Context, request initwire.Request, files ...*os.File) (initwire.Answer, error) {
	_, answers, err := b.Send(request, files...)
	if err != nil {
		return initwire.Answer{}, err
	}
	select {
	case answer := <-answers:
		return answer, problemOf(answer)
	case <-b.ended:
		if answer, ok := pollAnswer(answers); ok {
			return answer, problemOf(answer)
		}
		return initwire.Answer{}, ErrGone
	case <-ctx.Done():
		return initwire.Answer{}, ctx.Err()
	}
}

// RequestError is the error of a request that failed in the environment.
type RequestError struct {
	Kind    initwire.Problem
	Problem string
	Code    int // the exit code of a shell for a command that could not be started; 0: none
}

func (e *RequestError) Error() string { return e.Problem }

// Is reports whether the error means that a file does not exist.
func (e *RequestError) Is(target error) bool {
	return e.Kind == initwire.NotFound && target == os.ErrNotExist
}

func problemOf(answer initwire.Answer) error {
	if answer.Problem == "" {
		return nil
	}
	return &RequestError{answer.Kind, answer.Problem, answer.Code}
}

// End ends everything in the environment and waits until it has ended. It may be called many times.
func (b *Client) End() {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		b.conn.Close()
		b.kill()
	}
	b.mu.Unlock()
	<-b.ended
}

// Running reports whether process 1 is alive.
func (b *Client) Running() bool {
	select {
	case <-b.ended:
		return false
	default:
		return true
	}
}

// Tail keeps the beginning and the end of what a process prints.
type Tail struct{ excerpt.Ends }

func (t *Tail) String() string { return strings.TrimSpace(t.Ends.String()) }
