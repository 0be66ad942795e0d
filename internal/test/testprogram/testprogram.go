// Package testprogram writes programs that tests execute at once.
package testprogram

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Write writes a program and the directories above it. No process is forked meanwhile: it would
// have the file open until it executes its own program, and Linux executes no file that is open for
// writing ("Text file busy").
func Write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil { // #nosec G306 -- it is a program
		t.Fatal(err)
	}
}
