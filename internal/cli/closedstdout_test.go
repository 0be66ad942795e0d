package cli

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/cli/command"
)

// TestAClosedStdoutIsSilent: the reader of a pipe went away, as head does.
func TestAClosedStdoutIsSilent(t *testing.T) {
	dir := jobDir(t)
	for line, code := range map[string]int{
		"schema job": command.ExitPipe, "agents ls": command.ExitPipe, "agents ls --json": command.ExitPipe, "ls --json --jobs-dir .": command.ExitPipe,
		"schema jbo": command.ExitUsage,
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
		got := Main(t.Context(), context.Background(), env, strings.Fields(line))
		if got != code || (code == command.ExitPipe) != (stderr.Len() == 0) {
			t.Errorf("%s: exit code %d, want %d: %s", line, got, code, &stderr)
		}
	}
}
