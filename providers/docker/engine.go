package docker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"

	"github.com/org/rollout-action/internal/core/environment"
)

// Engines fail now and then because they are busy, or restart, or because a proxy before them does.
// These are the number of tries, and the first wait between them, which doubles.
const (
	engineTries = 6
	engineWait  = 20 * time.Millisecond
)

// persist calls do until it succeeds, fails for good, or has failed too often. do must be
// repeatable. A conflict, and a thing that does not exist, count as passing: callers that know
// better check first.
func persist(ctx context.Context, do func() error) error {
	return persistWhile(ctx, isPassing, do)
}

// persistWhile calls do as persist does, as long as again reports true for its error.
func persistWhile(ctx context.Context, again func(error) bool, do func() error) error {
	for try := 1; ; try++ {
		err := do()
		if err == nil || try == engineTries || !again(err) || !backOff(ctx, try) {
			return err
		}
	}
}

// backOff waits after a try that failed, and reports false if ctx ended.
func backOff(ctx context.Context, try int) bool {
	select {
	case <-time.After(engineWait << (try - 1)):
		return true
	case <-ctx.Done():
		return false
	}
}

// isPassing reports whether the same request may succeed later.
func isPassing(err error) bool {
	return isTransient(err) || isGone(err) && !isContext(err)
}

// isGone reports whether the engine says that the object does not exist, or is not in a state for
// the request.
func isGone(err error) bool { return cerrdefs.IsNotFound(err) || cerrdefs.IsConflict(err) }

// retryReads is a transport that repeats read-only requests, so that a passing failure is not taken
// for the answer.
type retryReads struct {
	next  http.RoundTripper
	heard *heard
}

// RoundTrip implements http.RoundTripper.
func (t retryReads) RoundTrip(req *http.Request) (*http.Response, error) {
	once := func() (*http.Response, error) {
		if t.heard.podman.Load() {
			req = forPodman(req)
		}
		resp, err := t.next.RoundTrip(req)
		if err == nil || isConnection(err) {
			t.heard.silent.Store(err != nil)
		}
		if err == nil && t.heard.note(resp) {
			err = correctStatus(resp)
		}
		return resp, err
	}
	if req.Method != http.MethodGet && req.Method != http.MethodHead || req.Context().Value(onceKey{}) != nil {
		return once()
	}
	for try := 1; ; try++ {
		resp, err := once()
		if err == nil {
			boundChanges(resp)
			resp, err = bufferJSON(resp)
		}
		if try == engineTries || err != nil && !isConnection(err) || err == nil && !mayRetry(req, resp.StatusCode) {
			return resp, err
		}
		if err == nil {
			_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection can be used again
			resp.Body.Close()
		}
		if !backOff(req.Context(), try) {
			return nil, req.Context().Err()
		}
	}
}

// maxAnswer bounds how much of an answer is read before it is handed on.
const maxAnswer = 4 << 20

// bufferJSON reads the answer to a question, so that one which breaks off is asked for again.
// Archives and other streams, such as events, which never end, are left to their readers.
func bufferJSON(resp *http.Response) (*http.Response, error) {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind != "application/json" || resp.Request != nil && strings.HasSuffix(resp.Request.URL.Path, "/events") {
		return resp, nil
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		resp.Body.Close()
		return nil, err
	}
	rest := resp.Body
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), rest), rest}
	return resp, nil
}

// reachTime is how long Reachable waits for an engine that does not answer: it may be about to
// start again.
const reachTime = 20 * time.Second

// Reachable implements environment.Backend.
func (p *Provider) Reachable(ctx context.Context) error {
	if !p.silent.Load() {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, p.reachTime)
	defer cancel()
	last := errSilent
	for {
		_, err := p.api.Ping(limited)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if !isContext(err) {
			last = err
		}
		select {
		case <-time.After(time.Second):
		case <-limited.Done():
			return &environment.Error{
				Kind: environment.KindUnavailable, Transient: true, Hint: "start Docker again",
				Err: fmt.Errorf("the Docker engine at %s does not answer any more: %w", p.api.DaemonHost(), last),
			}
		}
	}
}

// onceKey is the key of a context whose requests are not repeated.
type onceKey struct{}

// askOnce returns a context for questions about containers that may well be gone, and for requests
// that do something though they read.
func askOnce(ctx context.Context) context.Context { return context.WithValue(ctx, onceKey{}, true) }

// containerPaths matches the API paths of our own containers and execs. A 404
// there is rare: somebody removed them.
var containerPaths = regexp.MustCompile(`/(containers|exec)/[0-9a-f]{64}/(json|archive)$`)

// mayRetry reports whether a request is to be repeated after an answer.
func mayRetry(req *http.Request, status int) bool {
	switch status {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	case http.StatusNotFound, http.StatusConflict:
		return containerPaths.MatchString(req.URL.Path)
	}
	return false
}

// hijack returns the connection of a request. The client does not obey ctx while it waits for the
// answer, so this does; a connection that comes later is closed.
func hijack(ctx context.Context, connect func(context.Context) (types.HijackedResponse, error)) (types.HijackedResponse, error) {
	if err := ctx.Err(); err != nil {
		return types.HijackedResponse{}, err
	}
	type hijacked struct {
		conn types.HijackedResponse
		err  error
	}
	result := make(chan hijacked, 1)
	go func() {
		conn, err := connect(context.WithoutCancel(ctx))
		result <- hijacked{conn, err}
	}()
	select {
	case h := <-result:
		return h.conn, h.err
	case <-ctx.Done():
		go func() {
			if h := <-result; h.err == nil {
				h.conn.Close()
			}
		}()
		return types.HijackedResponse{}, context.Cause(ctx)
	}
}

// notBegun returns the error for a command that the engine did not start, though the container is
// there.
func notBegun(doing string, err error) error {
	return &environment.Error{Kind: environment.KindLost, Transient: true, Err: fmt.Errorf("%s: %w (%w)", doing, err, environment.ErrNotBegun)}
}
