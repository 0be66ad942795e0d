//go:build linux

package initclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/org/rollout-action/providers/internal/initwire"
)

// Put unpacks the tar stream that write writes. source is the error of write, unless write failed
// only because unpacking had failed.
func (b *Client) Put(ctx context.Context, replace bool, write func(io.Writer) error) (source, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	enlargePipe(w)
	written := make(chan error, 1)
	go func() {
		err := write(w)
		if err != nil {
			// The stream must not look complete: only a part was written.
			_, _ = w.WriteString("broken off")
		}
		w.Close()
		written <- err
	}()
	_, err = b.Call(ctx, initwire.Request{Op: initwire.Unpack, Replace: replace}, r)
	w.Close() // ends the writer when reading has stopped
	source = <-written
	if errors.Is(source, os.ErrClosed) || errors.Is(source, syscall.EPIPE) {
		source = nil
	}
	return source, err
}

// Get sends a request that writes a stream, and calls read with that stream. reading is the error
// of read.
func (b *Client) Get(ctx context.Context, request initwire.Request, read func(io.Reader) error) (reading, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	enlargePipe(w)
	done := make(chan error, 1)
	go func() {
		err := read(r)
		r.Close() // ends the writer if there is more
		done <- err
	}()
	_, err = b.Call(ctx, request, w)
	if err != nil && ctx.Err() != nil {
		r.Close()
	}
	return <-done, err
}

// CallForFile sends a request whose answer has one file.
func (b *Client) CallForFile(ctx context.Context, request initwire.Request) (*os.File, initwire.Answer, error) {
	answer, err := b.Call(ctx, request)
	if err == nil && len(answer.Files) == 1 {
		return answer.Files[0], answer, nil
	}
	for _, f := range answer.Files {
		f.Close()
	}
	if err == nil {
		err = fmt.Errorf("%d files came, want 1", len(answer.Files))
	}
	return nil, answer, err
}
