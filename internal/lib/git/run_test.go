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

// The first failure is at the beginning of git's output, its conclusion at the end.
func TestMessageKeepsBothEndsOfGitOutput(t *testing.T) {
	var said strings.Builder
	said.WriteString("the cause\nhint: no hints\n")
	for range 100 {
		said.WriteString("between\n")
	}
	said.WriteString("fatal: the conclusion https://u:s3cret@x\n")
	got := Remote{secret: "s3cret"}.message(said.String())
	if want := "the cause; [784 bytes are left out here]; between; between; fatal: the conclusion https://u:***@x"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := (Remote{}).message("cause" + strings.Repeat("x", 5000) + "effect"); len(got) > 500 || !strings.HasPrefix(got, "cause") || !strings.HasSuffix(got, "effect") || !strings.Contains(got, " bytes…] ") {
		t.Errorf("a long line: %q", got)
	}
}
