package initproc

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAccountsMustBeAFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, os.DevNull, t.TempDir()} { // a pipe that is waited for hangs this test
		if lines, err := readLines(path); err == nil {
			t.Errorf("%s has lines: %q", path, lines)
		}
	}
}

func TestAccountsFileSizeIsLimited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "passwd")
	line := []byte("x:x:1:1\n")
	many := make([]byte, 0, 2*maxAccountsFile)
	for len(many) < 2*maxAccountsFile {
		many = append(many, line...)
	}
	if err := os.WriteFile(path, many, 0o644); err != nil {
		t.Fatal(err)
	}
	lines, err := readLines(path)
	if want := maxAccountsFile / len(line); err != nil || len(lines) != want {
		t.Errorf("%d lines, error %v; want %d", len(lines), err, want)
	}
}
