package environment

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"
)

// memoryScript prints the path of a file in one of the environment's file systems in memory, and
// ends with exit code 3; with 0 if there is none.
//
//go:embed memory.sh
var memoryScript string

// FileInMemory returns the path of a file in one of env's file systems in memory, or "". It is for
// providers that can keep only files on a disk. It runs bash in the environment, which commands
// could have replaced. Directories in mounts are left out.
func FileInMemory(ctx context.Context, env Environment, mounts ...string) (string, error) {
	const patience = time.Minute
	script := "set --"
	for _, at := range mounts {
		script += " '" + strings.ReplaceAll(at, "'", `'\''`) + "'"
	}
	var out pathBuffer
	code, err := env.Exec(ctx, script+"\n"+memoryScript, ExecOptions{WorkDir: "/", User: "0", Stdout: &out, Timeout: patience})
	switch {
	case err != nil:
		return "", fmt.Errorf("look for files in memory: %w", err)
	case code == 0:
		return "", nil
	case code == 3 && len(out.text) > 0:
		return string(out.text), nil
	}
	return "", errors.New("look for files in memory: the environment's bash does not work any more")
}

// pathBuffer keeps the first bytes written to it, up to the length of a path.
type pathBuffer struct{ text []byte }

// Write implements io.Writer.
func (b *pathBuffer) Write(p []byte) (int, error) {
	const longest = 4096
	b.text = append(b.text, p[:min(len(p), longest-len(b.text))]...)
	return len(p), nil
}
