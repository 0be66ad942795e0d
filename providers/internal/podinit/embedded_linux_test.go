package podinit

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/fstest"
)

func TestInstallWritesTheEmbeddedProgram(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.Stat(own)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name     string
		programs fstest.MapFS
		want     int64 // bytes
	}{
		{"a release", compressed(t, runtime.GOARCH), int64(len(smallProgram))},
		{"a release without one for this architecture", compressed(t, "riscv64"), whole.Size()},
		{"built from source", fstest.MapFS{}, whole.Size()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := install(tc.programs, dir); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{Program, Connector} {
				info, err := os.Stat(filepath.Join(dir, filepath.Base(name)))
				if err != nil {
					t.Fatal(err)
				}
				if info.Size() != tc.want || info.Mode()&0o555 != 0o555 {
					t.Errorf("%s has %d bytes and the mode %s, want %d and a program", name, info.Size(), info.Mode(), tc.want)
				}
			}
		})
	}
}
