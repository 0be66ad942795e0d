package memfs

import (
	"errors"
	"io/fs"
	"testing"
	"testing/fstest"
)

func TestDir(t *testing.T) {
	d := Dir{"a.sh": {Data: []byte("true\n"), Mode: 0o755}, "empty": {Mode: 0o600}}
	if err := fstest.TestFS(d, "a.sh", "empty"); err != nil {
		t.Error(err)
	}
	if err := fstest.TestFS(Dir(nil)); err != nil {
		t.Error(err)
	}
	read, err := fs.Stat(d, "a.sh")
	if err != nil || read.Mode() != 0o755 || read.Size() != 5 {
		t.Errorf("%v, %v", read, err)
	}
	for name, want := range map[string]error{"b": fs.ErrNotExist, "a.sh/b": fs.ErrNotExist, "/a.sh": fs.ErrInvalid} {
		if _, err := d.Open(name); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}
