package podinit

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/initwire"
)

// Files returns the files of the container's root file system, as initproc.ListFiles has them.
// After an error there are no more.
func (e *Environment) Files(ctx context.Context) iter.Seq2[initwire.File, error] {
	return func(yield func(initwire.File, error) bool) {
		const doing = "list the files of the container"
		stream, done, err := e.open(ctx, request{Op: opList})
		if err != nil {
			yield(initwire.File{}, e.failed(ctx, environment.KindCopy, doing, err))
			return
		}
		defer done()
		answer, err := readFrames(stream, func(_ byte, data []byte) error {
			var files []initwire.File
			if err := json.Unmarshal(data, &files); err != nil {
				return err
			}
			for _, f := range files {
				if !yield(f, nil) {
					return errStopped
				}
			}
			return nil
		})
		switch {
		case errors.Is(err, errStopped):
			return
		case err != nil:
			err = e.broken(ctx, err)
		default:
			err = problemOf(answer)
		}
		if err != nil {
			yield(initwire.File{}, e.failed(ctx, environment.KindCopy, doing, err))
		}
	}
}

// PackFiles calls read with the tar stream that initproc.PackFiles writes of paths, which are as in
// initwire.File. An error of read is returned as it is.
func (e *Environment) PackFiles(ctx context.Context, paths iter.Seq[string], read func(io.Reader) error) error {
	const doing = "read files of the container"
	stream, done, err := e.open(ctx, request{Op: opPackFiles})
	if err != nil {
		return e.failed(ctx, environment.KindCopy, doing, err)
	}
	defer done()
	go func() {
		to := frameWriter{stream, frameStdout}
		var block []byte
		for path := range paths {
			if block = append(append(block, path...), 0); len(block) < maxOutput {
				continue
			}
			if _, err := to.Write(block); err != nil {
				return // the guest's answer says more
			}
			block = block[:0]
		}
		_, _ = to.Write(block)
		_ = writeReply(stream, reply{})
	}()
	reading, err := e.readPacked(ctx, stream, read)
	if reading != nil {
		return reading
	}
	return e.failed(ctx, environment.KindCopy, doing, err)
}
