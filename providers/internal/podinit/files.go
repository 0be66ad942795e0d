package podinit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/org/rollout-action/internal/core/environment"
)

// CopyTo implements environment.Environment.
func (e *Environment) CopyTo(ctx context.Context, files ...environment.Copy) error {
	if len(files) == 0 {
		return nil
	}
	const doing = "copy into the container"
	replace := slices.ContainsFunc(files, func(c environment.Copy) bool { return c.Clean })
	stream, done, err := e.open(ctx, request{Op: opUnpack, Replace: replace})
	if err != nil {
		return e.failed(ctx, environment.KindCopy, doing, err)
	}
	defer done()
	packing := make(chan error, 1)
	go func() {
		err := environment.Pack(frameWriter{stream, frameStdout}, files...)
		end := reply{}
		if err != nil {
			end.Problem = "the files could not be read"
		}
		_ = writeReply(stream, end) // if it fails, the guest's answer says more
		packing <- err
	}()
	var answer reply
	err = readMessage(stream, &answer)
	_ = stream.SetWriteDeadline(time.Unix(1, 0)) // its reader is gone
	source := <-packing
	switch {
	case err != nil:
		err = e.broken(ctx, err)
	case source != nil && answer.Ended == nil && !errors.Is(source, yamux.ErrTimeout):
		return &environment.Error{Kind: environment.KindCopy, Err: fmt.Errorf("%s: %w", doing, source)}
	default:
		err = problemOf(answer)
	}
	return e.failed(ctx, environment.KindCopy, doing, err)
}

var errStopped = errors.New("the reader wants no more")

// readPacked calls read with the tar stream whose frames come on a stream. It returns the error of
// read, or the error because of which the stream ended early.
func (e *Environment) readPacked(ctx context.Context, stream *yamux.Stream, read func(io.Reader) error) (reading, ended error) {
	reader, writer := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		answer, err := readFrames(stream, func(_ byte, data []byte) error {
			_, err := writer.Write(data)
			return err
		})
		if err == nil {
			err = problemOf(answer)
		} else if !errors.Is(err, errStopped) {
			err = e.broken(ctx, err)
		}
		writer.CloseWithError(err) // nil is the end
		packed <- err
	}()
	reading = read(reader)
	reader.CloseWithError(errStopped)
	if reading != nil {
		reset(stream) // the guest need not go on
	}
	ended = <-packed
	if errors.Is(ended, errStopped) || reading != nil && !errors.Is(reading, ended) {
		return reading, nil
	}
	return nil, ended
}

// CopyFrom implements environment.Environment.
func (e *Environment) CopyFrom(ctx context.Context, src, dst string, opts environment.ExtractOptions) (environment.Extracted, error) {
	if _, err := os.Stat(dst); err != nil {
		return environment.Extracted{}, &environment.Error{Kind: environment.KindCopy, Err: fmt.Errorf("copy out of the container: %w", err)}
	}
	doing := "copy " + src + " out of the container"
	name := path.Base(path.Clean("/" + src))
	strip := name
	if name == "/" {
		name, strip = "", ""
	}
	stream, done, err := e.open(ctx, request{Op: opPack, Path: path.Clean("/" + src), Prefix: name})
	if err != nil {
		return environment.Extracted{}, e.failed(ctx, environment.KindCopy, doing, err)
	}
	defer done()
	var out environment.Extracted
	extracting, err := e.readPacked(ctx, stream, func(r io.Reader) (err error) {
		out, err = environment.Extract(r, dst, strip, opts)
		return err
	})
	if extracting != nil {
		return out, &environment.Error{Kind: environment.KindCopy, Err: fmt.Errorf("%s: %w", doing, extracting)}
	}
	return out, e.failed(ctx, environment.KindCopy, doing, err)
}
