//go:build linux

package oci

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func pack(t testing.TB, dir string, opaque bool) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := Pack(context.Background(), dir, &out, PackOptions{Xattr: xattrOf(), Opaque: opaque}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// listArchive returns a line for each entry of a tar archive.
func listArchive(t testing.TB, data []byte) []string {
	t.Helper()
	var list []string
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprintf("%c %04o %d:%d %s", h.Typeflag, h.Mode, h.Uid, h.Gid, h.Name)
		if h.Linkname != "" {
			line += " -> " + h.Linkname
		}
		if len(text) > 0 {
			line += " = " + string(text)
		}
		var keys []string
		for key := range h.PAXRecords {
			if strings.HasPrefix(key, paxXattr) {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		for _, key := range keys {
			line += fmt.Sprintf(" %s=%q", key, h.PAXRecords[key])
		}
		if !h.ModTime.Equal(stamp.Truncate(1e9)) && h.ModTime.Unix() != 0 {
			line += " at " + h.ModTime.UTC().String()
		}
		list = append(list, line)
	}
}

func owned(e entry, uid, gid int) entry {
	e.Uid, e.Gid = uid, gid
	return e
}

func withXattr(e entry, name, value string) entry {
	e.PAXRecords = map[string]string{paxXattr + name: value}
	return e
}

// Pack restores an unpacked layer.
func TestPackUndoesUnpack(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files other owners; TestPackAsAnyUser has the rest")
	}
	entries := []entry{
		owned(directory("a/", 0o2750), 7, 8),
		file("a/.wh..wh..opq", "", 0),
		owned(file("a/file", "content", 0o4755), 1000, 100000),
		hardLink("a/link", "a/file"),
		withXattr(file("a/xattr", "x", 0o600), "user.mine", "v\x00w"),
		file("b/.wh.gone", "", 0),
		directory("b/new/", 0o1777),
		{tar.Header{Typeflag: tar.TypeFifo, Name: "b/pipe", Mode: 0o640, ModTime: stamp}, ""},
		symlink("b/symlink", "../../etc/passwd"),
		file("z-"+strings.Repeat("long", 60), strings.Repeat("ä", 300), 0o644),
	}
	dir, _ := unpack(t, slices.Insert(slices.Clone(entries), 5, directory("b/", 0o755))...)
	data := pack(t, dir, false)
	got := listArchive(t, data)
	want := []string{
		"5 2750 7:8 a/", "0 0000 0:0 a/.wh..wh..opq", "0 4755 1000:100000 a/file = content", "1 4755 1000:100000 a/link -> a/file",
		`0 0600 0:0 a/xattr = x SCHILY.xattr.user.mine="v\x00w"`,
		"5 0755 0:0 b/", "0 0000 0:0 b/.wh.gone", "5 1777 0:0 b/new/", "6 0640 0:0 b/pipe", "2 0777 0:0 b/symlink -> ../../etc/passwd",
		"0 0644 0:0 z-" + strings.Repeat("long", 60) + " = " + strings.Repeat("ä", 300),
	}
	if !slices.Equal(got, want) {
		t.Errorf("packed:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	again := layerDir(t)
	if _, err := Unpack(t.Context(), bytes.NewReader(data), again, options()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(pack(t, again, false), data) {
		t.Error("packed once more, it is another archive")
	}
}

func TestPackAsAnyUser(t *testing.T) {
	dir, _ := unpack(t, directory("a/", 0o755), file("a/.wh..wh..opq", "", 0), file("a/f", "x", 0o644), file(".wh.gone", "", 0))
	me := fmt.Sprintf("%d:%d", os.Geteuid(), os.Getegid())
	want := []string{"0 0000 0:0 .wh..wh..opq", "5 0755 " + me + " a/", "0 0000 0:0 a/.wh..wh..opq", "0 0644 " + me + " a/f = x", "0 0000 0:0 .wh.gone"}
	if got := listArchive(t, pack(t, dir, true)); !slices.Equal(got, want) {
		t.Errorf("packed:\n%s", strings.Join(got, "\n"))
	}
	if got := pack(t, layerDir(t), false); len(listArchive(t, got)) != 0 {
		t.Error("an empty layer has files")
	}
}

func TestPackRefuses(t *testing.T) {
	for _, tc := range []struct {
		name string
		make func(dir string) error
		want string
	}{
		{"a file that would be a whiteout", func(dir string) error { return os.WriteFile(filepath.Join(dir, ".wh.x"), nil, 0o600) }, `".wh.x": layers cannot have`},
		{"a directory that was moved", func(dir string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "d"), 0o700), unix.Setxattr(filepath.Join(dir, "d"), xattrOf()+".overlay.redirect", []byte("/e"), 0))
		}, `"d": overlayfs has kept a part of it elsewhere`},
		{"a file without its content", func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "f"), nil, 0o600), unix.Setxattr(filepath.Join(dir, "f"), xattrOf()+".overlay.metacopy", nil, 0))
		}, `"f": overlayfs has kept a part of it elsewhere`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := layerDir(t)
			if err := tc.make(dir); errors.Is(err, unix.ENOTSUP) {
				t.Skip("the file system of temporary files has no such attributes")
			} else if err != nil {
				t.Fatal(err)
			}
			err := Pack(t.Context(), dir, io.Discard, PackOptions{Xattr: xattrOf()})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
	if err := Pack(t.Context(), layerDir(t), io.Discard, PackOptions{}); err == nil {
		t.Error("options without Xattr are accepted")
	}
	if err := Pack(t.Context(), filepath.Join(layerDir(t), "none"), io.Discard, PackOptions{Xattr: XattrUser}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir, _ := unpack(t, file("f", "x", 0o600))
	if err := Pack(ctx, dir, io.Discard, PackOptions{Xattr: xattrOf()}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v", err)
	}
	// A socket is left out.
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	dir = layerDir(t)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: filepath.Join(dir, "s")}); err != nil {
		t.Fatal(err)
	}
	if got := listArchive(t, pack(t, dir, false)); len(got) != 0 {
		t.Errorf("a socket became %v", got)
	}
}
