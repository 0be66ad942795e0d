package guest

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

	"github.com/org/rollout-action/internal/environment"
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
	_ = stream.SetWriteDeadline(time.Unix(1, 0)) // nobody reads any more
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
		writer.Close() // a stream that ended early is an error of the archive, unless err says more
		packed <- err
	}()
	out, extracting := environment.Extract(reader, dst, strip, opts)
	reader.CloseWithError(errStopped)
	if extracting != nil {
		stream.Close() // the guest writes no more
		reset(stream)
	}
	err = <-packed
	if errors.Is(err, errStopped) {
		err = nil
	}
	// The reader's own error is the cause if the guest could not go on writing. If the stream ended early, the cause is the guest's error.
	if extracting != nil && (err == nil || !errors.Is(extracting, io.ErrUnexpectedEOF) && ctx.Err() == nil) {
		return out, &environment.Error{Kind: environment.KindCopy, Err: fmt.Errorf("%s: %w", doing, extracting)}
	}
	return out, e.failed(ctx, environment.KindCopy, doing, err)
}
