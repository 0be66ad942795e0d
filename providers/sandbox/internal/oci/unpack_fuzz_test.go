//go:build linux

package oci

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// script makes an archive of lines "KIND NAME" or "KIND NAME\x00TARGET": a shorter way to hostile
// archives than bytes with checksums in them.
func script(lines string) []byte {
	kinds := map[byte]byte{
		'f': tar.TypeReg, 'd': tar.TypeDir, 'l': tar.TypeSymlink, 'h': tar.TypeLink,
		'p': tar.TypeFifo, 'c': tar.TypeChar, 'o': tar.TypeDir, 's': tar.TypeReg,
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for line := range strings.SplitSeq(lines, "\n") {
		if len(line) < 3 || kinds[line[0]] == 0 {
			continue
		}
		name, target, _ := strings.Cut(line[2:], "\x00")
		h := &tar.Header{Typeflag: kinds[line[0]], Name: name, Linkname: target, Mode: 0o755, Format: tar.FormatGNU}
		switch line[0] {
		case 'f':
			h.Size = 4
		case 'o':
			h.Mode = 0
		case 's':
			h.Mode, h.Uid, h.Gid = 0o6711, 1, 2
		}
		if w.WriteHeader(h) == nil && h.Size > 0 {
			io.WriteString(w, "evil")
		}
	}
	w.Close()
	return out.Bytes()
}

// outside describes all files next to the layer: names, kinds, modes, owners, times, contents.
func outside(t testing.TB, base string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(base, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if p == filepath.Join(base, "layer") {
			return filepath.SkipDir
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		data, target := []byte(nil), ""
		if d.Type().IsRegular() {
			data, err = os.ReadFile(p)
		} else if d.Type()&os.ModeSymlink != 0 {
			target, err = os.Readlink(p)
		}
		fmt.Fprintln(&out, p, st.Mode, st.Uid, st.Gid, st.Nlink, st.Mtim, st.Ctim, string(data), target)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// FuzzUnpack searches for archives, or scripts of them, that change files outside of the layer's
// directory.
func FuzzUnpack(f *testing.F) {
	for _, lines := range []string{
		"f ../canary",
		"f /../canary",
		"f a/../../canary",
		"f ..",
		"d ..",
		"l ..\x00/",
		"l a\x00..\nf a/canary",
		"l a\x00../..\nf a/outside/canary",
		"l a\x00/\nf a/canary\nd a/outside",
		"l a\x00BASE\nf a/canary\nf a/new\nd a/outside\nd a/made",
		"l a\x00BASE/canary\nf a\nh b\x00a\ns b",
		"l a\x00BASE/canary\ns a",
		"h a\x00../canary\nf a",
		"h a\x00BASE/canary\nf a",
		"l a\x00BASE\nh b\x00a/canary\nf b",
		"l a\x00..\nh b\x00a/canary\nf b",
		"l a\x00BASE/outside\no a/x\nd a",
		"l a\x00BASE/outside\nd a\nf a/file",
		"d a\nl a\x00BASE\nf a/canary",
		"d a\nf a/b\nl a\x00BASE\nf a/canary\nf a/b",
		"d d\nl d/x\x00../..\nf d/x/canary",
		"f .wh...\nf a/.wh...\nf .wh..\nf .wh.",
		"l a\x00..\nf a/.wh.canary\nf a/.wh..wh..opq",
		"l a\x00BASE\nf a/.wh.canary\nf a/outside/.wh..wh..opq",
		"f .wh.a\nf a/b\nf .wh.a\nd a\nf a\nf a/b",
		"f .wh.a\nh b\x00a\nd b",
		"l a\x00b\nl b\x00a\nf a/c",
		"p a\nf a\nc b\nd b\nf b/c\no b\nf b/d",
		"l a\x00/proc/self/cwd\nf a/canary",
		"l a\x00/proc/self/root\nf a/canary",
		"f ./././a\nd .\nl .\x00/\no .",
		"l " + strings.Repeat("a", 300) + "\x00b\nf " + strings.Repeat("d/", 3000) + "x",
	} {
		f.Add([]byte(lines), true)
		f.Add(script(strings.ReplaceAll(lines, "BASE", "..")), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, isScript bool) {
		dir := layerDir(t)
		base := filepath.Dir(dir)
		must(t, os.WriteFile(filepath.Join(base, "canary"), []byte("safe"), 0o640))
		must(t, os.Mkdir(filepath.Join(base, "outside"), 0o750))
		must(t, os.WriteFile(filepath.Join(base, "outside", "file"), []byte("safe"), 0o640))
		must(t, os.Symlink(base, filepath.Join(base, "outside", "link")))
		before := outside(t, base)
		if isScript {
			data = script(strings.ReplaceAll(string(data), "BASE", base))
		}
		opts := options()
		opts.MaxBytes, opts.MaxFiles = 1<<20, 1000
		var err error
		fenced(t, base, func() { _, err = Unpack(context.Background(), bytes.NewReader(data), dir, opts) })
		if after := outside(t, base); after != before {
			t.Errorf("unpacking (%v) changed\n%s\nto\n%s", err, before, after)
		}
	})
}
