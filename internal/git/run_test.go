package git

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// git itself only dies of the broken pipe, which looks like any other failure.
func TestTooMuchOutputIsReported(t *testing.T) {
	line := []byte(strings.Repeat("x", 1023) + "\n")
	_, err := New(Options{}).run(t.Context(), call{
		dir: t.TempDir(), stdin: bytes.NewReader(bytes.Repeat(line, maxOutput/len(line)+(1<<10))), args: []string{"stripspace"},
	})
	if !errors.Is(err, errTooMuch) {
		t.Errorf("%v, want %v", err, errTooMuch)
	}
}
