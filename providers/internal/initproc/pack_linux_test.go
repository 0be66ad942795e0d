package initproc

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/test/testenv"
)

// packedAll returns what PackAll writes of a directory: a line for each entry, and the attributes
// of all.
func packedAll(t *testing.T, dir string) (lines []string, attributes map[string]string) {
	t.Helper()
	var stream bytes.Buffer
	if err := PackAll(dir, &stream); err != nil {
		t.Fatal(err)
	}
	attributes = map[string]string{}
	for archive := tar.NewReader(&stream); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return lines, attributes
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%c %s %s%s", header.Typeflag, header.Name, header.Linkname, content))
		for name, value := range header.PAXRecords {
			attributes[name] = value
		}
	}
}

func TestPackAllLeavesNothingOut(t *testing.T) {
	dir := t.TempDir()
	deep := filepath.Join(dir, "deep")
	for range maxPlainDepth + 5 {
		deep += "/d"
	}
	listener, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err == nil {
		defer listener.Close()
		err = errors.Join(os.WriteFile(filepath.Join(dir, "a"), []byte("content"), 0o600), os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "b")),
			os.Symlink("/target", filepath.Join(dir, "link")), os.MkdirAll(deep, 0o755), os.WriteFile(deep+"/last", []byte("deep"), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	lines, _ := packedAll(t, dir)
	last, err := filepath.Rel(dir, deep+"/last")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"0 a content", "0 b content", "2 link /target", "6 socket ", "0 " + last + " deep"} {
		if !slices.Contains(lines, want) {
			t.Errorf("missing %q", want)
		}
	}
	if t.Failed() {
		t.Logf("got %q", lines)
	}
}

func TestPackAllWritesEveryAttribute(t *testing.T) {
	dir := t.TempDir()
	for name, value := range map[string]string{"user.key": "a\x00b", "user.a=b": "value", "user.overlay.x": "y"} {
		err := unix.Setxattr(dir, name, []byte(value), 0)
		if errors.Is(err, unix.ENOTSUP) {
			testenv.Lacks(t, "xattr", "a file system with extended attributes: "+err.Error())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	_, attributes := packedAll(t, dir)
	for name, want := range map[string]string{"user.key": "a\x00b", "user.a-b": "value", "user.overlay.x": "y"} {
		if got := attributes["SCHILY.xattr."+name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// An environment may have made its /etc/passwd a pipe without an end.
func TestPackingLooksForNoNames(t *testing.T) {
	info, err := os.Lstat(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	header, err := fileHeader(info, "")
	if err != nil {
		t.Fatal(err)
	}
	if header.Uname != "" || header.Gname != "" || header.Typeflag != tar.TypeDir {
		t.Errorf("the header has the owner %q and the group %q: it was looked for", header.Uname, header.Gname)
	}
}
