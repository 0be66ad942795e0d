package initproc

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/org/rollout-action/providers/internal/initwire"
)

// manyNames makes a directory with more names than fit into memory, and returns how many.
func manyNames(t *testing.T, dir string) int {
	t.Helper()
	const n = 100_000
	for i := range n {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%06d%s", i, strings.Repeat("x", 240))))
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	return n
}

// heap returns how much memory is in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestNamesTakeLittleMemory(t *testing.T) {
	dir := t.TempDir()
	n := manyNames(t, dir)
	reader, writer := io.Pipe()
	before := heap()
	go func() { writer.CloseWithError(PackAll(dir, writer)) }()
	seen := map[[6]byte]bool{}
	for archive := tar.NewReader(reader); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if len(seen) == 0 {
			if most := before + maxHeld + 8<<20; heap() > most {
				t.Errorf("packing needs more than %d bytes", most-before)
			}
		}
		seen[[6]byte([]byte(header.Name))] = true
	}
	if len(seen) != n {
		t.Errorf("%d of %d files were packed", len(seen), n)
	}

	all, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	info, err := all.Stat()
	if err != nil {
		t.Fatal(err)
	}
	l := lister{each: func(initwire.File) error { return nil }}
	if l.device, err = deviceOf(info); err != nil {
		t.Fatal(err)
	}
	if err := l.list(all, ""); err == nil || !strings.Contains(err.Error(), "more files than can be listed") {
		t.Errorf("a list that must be in order: %v", err)
	}
	if l.held != 0 {
		t.Errorf("%d bytes are still held", l.held)
	}
}
