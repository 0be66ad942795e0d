package ctxio

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestReaderEndsWithItsContext(t *testing.T) {
	over := errors.New("over")
	ctx, cancel := context.WithCancelCause(t.Context())
	r := NewReader(ctx, strings.NewReader("abc"))
	one := make([]byte, 1)
	if n, err := r.Read(one); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	cancel(over)
	if rest, err := io.ReadAll(r); len(rest) != 0 || !errors.Is(err, over) {
		t.Errorf("%q, %v", rest, err)
	}
}
