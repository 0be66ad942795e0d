package cli

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"
)

// TestAClosedStdoutIsSilent: the reader of a pipe went away, as head does.
func TestAClosedStdoutIsSilent(t *testing.T) {
	dir := jobDir(t)
	for command, code := range map[string]int{
		"schema job": exitPipe, "agents ls": exitPipe, "agents ls --json": exitPipe, "ls --json --jobs-dir .": exitPipe,
		"schema jbo": exitUsage,
	} {
		reader, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer writer.Close()
		if err := reader.Close(); err != nil {
			t.Fatal(err)
		}
		var stderr bytes.Buffer
		env := Env{
			Providers: offered, Stdin: strings.NewReader(""), Stdout: writer, Stderr: &stderr, Dir: dir, Now: time.Now,
			Getenv: func(string) (string, bool) { return "", false },
		}
		got := Main(t.Context(), context.Background(), env, strings.Fields(command))
		if got != code || (code == exitPipe) != (stderr.Len() == 0) {
			t.Errorf("%s: exit code %d, want %d: %s", command, got, code, &stderr)
		}
	}
}
