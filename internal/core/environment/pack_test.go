package environment

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// listTar lists a tar stream, one entry per line: type, name, mode, owner, content.
func listTar(t *testing.T, data []byte) string {
	t.Helper()
	var b strings.Builder
	r := tar.NewReader(bytes.NewReader(data))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return b.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%c %s %o %d:%d %s\n", h.Typeflag, h.Name, h.Mode, h.Uid, h.Gid, content)
	}
}

func TestPack(t *testing.T) {
	tree := fstest.MapFS{
		"run.sh":    {Data: []byte("run"), Mode: 0o755},
		"usual":     {Mode: fs.ModeDir | 0o755},
		"usual/f":   {Data: []byte("f"), Mode: 0o644},
		"own":       {Mode: fs.ModeDir | 0o700},
		"own/f":     {Data: nil, Mode: fs.ModeSetuid | 0o600},
		"own/empty": {Mode: fs.ModeDir | 0o755},
	}
	for _, test := range []struct {
		name string
		copy Copy
		want string
	}{
		{"directories have entries only if necessary", Copy{Src: tree, Dst: "/a/b"},
			"5 a/b/own/ 700 0:0 \n5 a/b/own/empty/ 755 0:0 \n0 a/b/own/f 600 0:0 \n0 a/b/run.sh 755 0:0 run\n0 a/b/usual/f 644 0:0 f\n"},
		{"a clean copy removes the destination first and creates every directory", Copy{Src: tree, Dst: "/tests/", Clean: true},
			"0 tests 600 0:0 \n5 tests/ 755 0:0 \n5 tests/own/ 700 0:0 \n5 tests/own/empty/ 755 0:0 \n0 tests/own/f 600 0:0 \n" +
				"0 tests/run.sh 755 0:0 run\n5 tests/usual/ 755 0:0 \n0 tests/usual/f 644 0:0 f\n"},
		{"the mode of the destination", Copy{Src: fstest.MapFS{}, Dst: "/logs", Mode: 0o777}, "5 logs/ 777 0:0 \n"},
		{"a clean copy may have a mode", Copy{Src: fstest.MapFS{}, Dst: "/logs", Mode: 0o777, Clean: true}, "0 logs 600 0:0 \n5 logs/ 777 0:0 \n"},
		{"the mode may be sticky", Copy{Src: fstest.MapFS{}, Dst: "/logs", Mode: fs.ModeSticky | 0o733}, "5 logs/ 1733 0:0 \n"},
		{"an empty source creates the destination", Copy{Src: fstest.MapFS{}, Dst: "/x/../logs"}, "5 logs/ 755 0:0 \n"},
		{"the root is a destination", Copy{Src: fstest.MapFS{"f": {Data: []byte("f"), Mode: 0o644}}, Dst: "/"}, "0 f 644 0:0 f\n"},
		{"an empty source for the root", Copy{Src: fstest.MapFS{}, Dst: "/"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := Pack(&out, test.copy); err != nil {
				t.Fatal(err)
			}
			if got := listTar(t, out.Bytes()); got != test.want {
				t.Errorf("got\n%swant\n%s", got, test.want)
			}
		})
	}
}

func TestPackKeepsOrderAndTimes(t *testing.T) {
	then := time.Date(2020, 2, 3, 4, 5, 6, 0, time.UTC)
	var out bytes.Buffer
	err := Pack(&out,
		Copy{Src: fstest.MapFS{"f": {Data: []byte("1"), ModTime: then}}, Dst: "/b"},
		Copy{Src: fstest.MapFS{"f": {Data: []byte("2")}}, Dst: "/a"})
	if err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(&out)
	first, err1 := r.Next()
	second, err2 := r.Next()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if first.Name != "b/f" || !first.ModTime.Equal(then) || second.Name != "a/f" || second.ModTime.Before(then) {
		t.Errorf("%s %v, %s %v", first.Name, first.ModTime, second.Name, second.ModTime)
	}
}

// shrinking is a file that has less content than its size.
type shrinking struct{ fs.FS }

func (s shrinking) Open(name string) (fs.File, error) {
	f, err := s.FS.Open(name)
	if name == "f" {
		return shrunk{f}, err
	}
	return f, err
}

type shrunk struct{ fs.File }

func (shrunk) Read([]byte) (int, error) { return 0, io.EOF }

func TestPackRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	one := fstest.MapFS{"f": {Data: []byte("content")}}
	for _, test := range []struct {
		name string
		copy Copy
		says string
	}{
		{"a link", Copy{Src: os.DirFS(dir), Dst: "/x"}, "link: only files and directories can be copied into an environment (this is a symbolic link)"},
		{"a pipe", Copy{Src: fstest.MapFS{"d/p": {Mode: fs.ModeNamedPipe}}, Dst: "/x"}, "d/p: only files and directories can be copied into an environment (this is a named pipe)"},
		{"a relative destination", Copy{Src: one, Dst: "x"}, `the destination "x" is not an absolute path`},
		{"to clean the root", Copy{Src: one, Dst: "/", Clean: true}, "the root of an environment can be neither cleaned nor given a mode"},
		{"to give the root a mode", Copy{Src: one, Dst: "/", Mode: 0o777}, "the root of an environment can be neither cleaned nor given a mode"},
		{"a file that became shorter", Copy{Src: shrinking{one}, Dst: "/x"}, "f: became shorter while it was read: unexpected EOF"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := Pack(io.Discard, test.copy); err == nil || err.Error() != test.says {
				t.Errorf("error %v, want %s", err, test.says)
			}
		})
	}
	if err := Pack(io.Discard, Copy{Src: os.DirFS(filepath.Join(dir, "none")), Dst: "/x"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want %v", err, fs.ErrNotExist)
	}
}
