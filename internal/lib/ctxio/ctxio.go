// Package ctxio ends reads with a context.
package ctxio

import (
	"context"
	"io"
)

// NewReader returns a reader that reads from r until ctx ends. Read then returns the cause. A Read
// of r that is under way is not interrupted.
func NewReader(ctx context.Context, r io.Reader) io.Reader {
	return reader{ctx, r}
}

type reader struct {
	ctx context.Context //nolint:containedctx // io.Reader takes none
	r   io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.r.Read(p)
}
