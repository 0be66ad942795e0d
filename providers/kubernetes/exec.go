package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/podinit"
)

// dial implements podinit.Dialer: it runs the guest's connector in a pod, over a WebSocket, or over
// SPDY where a proxy or an old server knows none.
func (e *podEnv) dial(ctx context.Context) (io.ReadWriteCloser, error) {
	if e.ended.Load() { // the connection broke because the pod is being deleted
		return nil, lost(false, "pod %s was ended by Rollout", e.name)
	}
	if c := e.early.take(); c != nil {
		return c, nil
	}
	return e.dialed(ctx, e.connect)
}

// dialed connects, and returns why it cannot.
func (e *podEnv) dialed(ctx context.Context, connect func(context.Context) (io.ReadWriteCloser, error)) (io.ReadWriteCloser, error) {
	c, err := connect(ctx)
	if err == nil {
		return c, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if apierrors.IsNotFound(err) && e.explain(ctx) != nil {
		return nil, lost(false, "pod %s is gone", e.name)
	}
	failure := failed(environment.KindLost, "run a command in pod "+e.name, err)
	var own *environment.Error
	if errors.As(failure, &own) && !apierrors.IsForbidden(err) {
		own.Kind, own.Transient = environment.KindLost, true // the guest asks explain whether there is anything to wait for
	}
	return nil, failure
}

// connect runs the guest's connector.
func (e *podEnv) connect(ctx context.Context) (io.ReadWriteCloser, error) {
	return e.p.exec(ctx, e.namespace, e.name, mainContainer, podinit.Connector)
}

// exec starts a command in a container of a pod. It returns when the command's streams are there.
func (c *client) exec(ctx context.Context, namespace, name, container string, command ...string) (*stream, error) {
	url := c.execURL(namespace, name, container, command...)
	socket, err := remotecommand.NewWebSocketExecutor(c.config, http.MethodGet, url.String())
	if err != nil {
		return nil, err
	}
	spdy, err := remotecommand.NewSPDYExecutor(c.config, http.MethodPost, url)
	if err != nil {
		return nil, err
	}
	both, err := remotecommand.NewFallbackExecutor(socket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) && !isStatus(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return nil, err
	}
	s := newStream()
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	go func() {
		err := both.StreamWithContext(running, remotecommand.StreamOptions{Stdin: s.input(), Stdout: s.outWriter, Stderr: &s.errors})
		s.finish(err)
	}()
	select {
	case <-s.begun:
		return s, nil
	case <-s.over:
		return nil, s.failure()
	case <-ctx.Done():
		s.Close()
		return nil, ctx.Err()
	}
}

// isStatus reports whether an upgrade failed with a status of the API server, and not because a
// proxy before it does not support WebSocket.
func isStatus(err error) bool {
	var status apierrors.APIStatus
	var upgrade *httpstream.UpgradeFailureError
	return errors.As(err, &upgrade) && errors.As(upgrade.Cause, &status)
}

// stream is the input and output of a command in a pod.
type stream struct {
	inReader, outReader *io.PipeReader
	inWriter, outWriter *io.PipeWriter
	errors              tail
	cancel              context.CancelFunc

	begin sync.Once
	begun chan struct{} // the input is being read: the streams are there
	over  chan struct{}
	err   error
}

func newStream() *stream {
	s := &stream{begun: make(chan struct{}), over: make(chan struct{})}
	s.inReader, s.inWriter = io.Pipe()
	s.outReader, s.outWriter = io.Pipe()
	return s
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) { return s.outReader.Read(p) }

// Write implements io.Writer.
func (s *stream) Write(p []byte) (int, error) { return s.inWriter.Write(p) }

// Close implements io.Closer.
func (s *stream) Close() error {
	_ = s.inWriter.Close()
	_ = s.outReader.Close()
	s.cancel()
	return nil
}

// finish notes the end of the command.
func (s *stream) finish(err error) {
	s.err = err
	close(s.over)
	end := s.failure()
	_ = s.outWriter.CloseWithError(end)
	_ = s.inReader.CloseWithError(end)
	s.cancel()
}

// failure returns why the command ended.
func (s *stream) failure() error {
	text := strings.TrimSpace(s.errors.String())
	switch {
	case s.err == nil && text == "":
		return io.EOF
	case s.err == nil:
		return fmt.Errorf("%w: %s", io.ErrUnexpectedEOF, text)
	case text == "":
		return s.err
	}
	return fmt.Errorf("%w: %s", s.err, text)
}

// input returns the reader of the command's input. Its first Read signals that the connection is
// established.
func (s *stream) input() io.Reader { return beginReader{s} }

type beginReader struct{ s *stream }

// Read implements io.Reader.
func (r beginReader) Read(p []byte) (int, error) {
	r.s.begin.Do(func() { close(r.s.begun) })
	return r.s.inReader.Read(p)
}

// tail keeps the last bytes that were written.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	const most = 2000
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-most):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.text), "")
}
