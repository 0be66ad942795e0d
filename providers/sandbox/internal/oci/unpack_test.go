//go:build linux

package oci

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/test/testenv"
)

// entry is a tar header with its data.
type entry struct {
	tar.Header
	data string
}

var stamp = time.Unix(1_500_000_000, 123_456_789)

func file(name, data string, mode int64) entry {
	return entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(data)), ModTime: stamp}, data}
}

func directory(name string, mode int64) entry {
	return entry{tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode, ModTime: stamp}, ""}
}

func symlink(name, target string) entry {
	return entry{tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777, ModTime: stamp}, ""}
}

func hardLink(name, target string) entry {
	return entry{tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target, Mode: 0o644, ModTime: stamp}, ""}
}

// archive returns a tar archive of entries.
func archive(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := e.Header
		h.Format = tar.FormatPAX
		if err := w.WriteHeader(&h); err != nil {
			t.Fatalf("%q: %v", h.Name, err)
		}
		if _, err := io.WriteString(w, e.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// xattrOf returns the namespace of attributes that the user of the tests may set.
func xattrOf() string {
	if os.Geteuid() == 0 {
		return XattrTrusted
	}
	return XattrUser
}

func options() UnpackOptions {
	return UnpackOptions{Xattr: xattrOf(), Owners: os.Geteuid() == 0}
}

// layerDir returns an empty directory. Its parent contains only one other file, which must not
// change.
func layerDir(t testing.TB) string {
	t.Helper()
	base, err := os.MkdirTemp("", "oci")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeAll(t, base) })
	dir := filepath.Join(base, "layer")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// removeAll also removes directories without permissions.
func removeAll(t testing.TB, dir string) {
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			os.Chmod(p, 0o700)
		}
		return nil
	})
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}

func unpack(t testing.TB, entries ...entry) (string, Report) {
	t.Helper()
	dir := layerDir(t)
	data := archive(t, entries...)
	var report Report
	var err error
	fenced(t, filepath.Dir(dir), func() { report, err = Unpack(context.Background(), bytes.NewReader(data), dir, options()) })
	if err != nil {
		t.Fatal(err)
	}
	return dir, report
}

// describe describes the file name in dir, without its time: "file 0644 data", "link target" and so
// on.
func describe(t testing.TB, dir, name string) string {
	t.Helper()
	p := filepath.Join(dir, name)
	var st unix.Stat_t
	if err := unix.Lstat(p, &st); err != nil {
		return err.Error()
	}
	mode := fmt.Sprintf("%04o", st.Mode&0o7777)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		data, err := os.ReadFile(p)
		if err != nil {
			return "file " + mode + " unreadable"
		}
		return "file " + mode + " " + string(data)
	case unix.S_IFDIR:
		value := make([]byte, 10)
		if n, err := unix.Lgetxattr(p, xattrOf()+".overlay.opaque", value); err == nil {
			return "directory " + mode + " opaque=" + string(value[:n])
		}
		return "directory " + mode
	case unix.S_IFLNK:
		target, _ := os.Readlink(p)
		return "link " + target
	case unix.S_IFIFO:
		return "fifo " + mode
	case unix.S_IFCHR:
		if st.Rdev == 0 {
			return "whiteout"
		}
		return fmt.Sprintf("device %s %d/%d", mode, unix.Major(st.Rdev), unix.Minor(st.Rdev))
	default:
		return fmt.Sprintf("kind %o", st.Mode&unix.S_IFMT)
	}
}

func TestUnpack(t *testing.T) {
	for _, tc := range []struct {
		name    string
		entries []entry
		want    map[string]string
	}{
		{"files keep mode and data, set-user-id bits too",
			[]entry{file("a", "x", 0o644), file("b", "", 0o4755), file("c", "y", 0o2711), file("d", "z", 0o400)},
			map[string]string{"a": "file 0644 x", "b": "file 4755 ", "c": "file 2711 y", "d": "file 0400 z"}},
		{"a read-only directory is filled",
			[]entry{directory("d", 0o555), file("d/e/f", "x", 0o444), directory("d/e", 0o1500)},
			map[string]string{"d": "directory 0555", "d/e": "directory 1500", "d/e/f": "file 0444 x"}},
		{"missing parents are made",
			[]entry{file("a/b/c", "x", 0o600)},
			map[string]string{".": "directory 0755", "a": "directory 0755", "a/b": "directory 0755", "a/b/c": "file 0600 x"}},
		{"the top has a mode",
			[]entry{directory("./", 0o711), file("./a", "x", 0o600)},
			map[string]string{".": "directory 0711", "a": "file 0600 x"}},
		{"absolute names are relative",
			[]entry{file("/a", "x", 0o600), file("//b/./c/../d", "y", 0o600), hardLink("/e", "/a")},
			map[string]string{"a": "file 0600 x", "b/d": "file 0600 y", "e": "file 0600 x"}},
		{"links and pipes",
			[]entry{symlink("l", "../../anywhere"), {tar.Header{Typeflag: tar.TypeFifo, Name: "p", Mode: 0o622}, ""}},
			map[string]string{"l": "link ../../anywhere", "p": "fifo 0622"}},
		{"hard links before and after a directory is closed",
			[]entry{directory("d", 0o500), file("d/a", "x", 0o600), directory("e", 0o700), hardLink("e/b", "d/a"),
				hardLink("e/c", "e/b"), symlink("s", "a"), hardLink("t", "s")},
			map[string]string{"e/b": "file 0600 x", "e/c": "file 0600 x", "t": "link a"}},
		{"a hard link to itself and one made twice change nothing",
			[]entry{file("a", "x", 0o600), hardLink("a", "a"), hardLink("b", "a"), hardLink("b", "a")},
			map[string]string{"a": "file 0600 x", "b": "file 0600 x"}},
		{"whiteouts",
			[]entry{file(".wh.a", "", 0), file("d/.wh.b", "", 0), directory("e", 0o750), file("e/.wh..wh..opq", "", 0)},
			map[string]string{"a": "whiteout", "d/b": "whiteout", "e": "directory 0750 opaque=y", ".wh.a": "no such file or directory"}},
		{"a whiteout does not hide its own layer's file, in either order",
			[]entry{file(".wh.a", "", 0), file("a", "x", 0o600), file("b", "y", 0o600), file(".wh.b", "", 0),
				symlink("c", "nowhere"), file(".wh.c", "", 0)},
			map[string]string{"a": "file 0600 x", "b": "file 0600 y", "c": "link nowhere"}},
		{"a whiteout and a directory are an opaque directory, in either order, with and without an entry",
			[]entry{file(".wh.a", "", 0), directory("a", 0o700), directory("b", 0o700), file(".wh.b", "", 0),
				file(".wh.c", "", 0), file("c/d", "x", 0o600)},
			map[string]string{"a": "directory 0700 opaque=y", "b": "directory 0700 opaque=y", "c": "directory 0755 opaque=y", "c/d": "file 0600 x"}},
		{"another file system's bookkeeping is left out",
			[]entry{file(".wh..wh.aufs", "", 0), directory(".wh..wh.plnk", 0o700), file(".wh..wh.plnk/1.2", "x", 0o600)},
			map[string]string{".wh..wh.aufs": "no such file or directory", ".wh..wh.plnk": "no such file or directory"}},
		{"later entries replace earlier ones",
			[]entry{
				file("ff", "longer", 0o600), file("ff", "new", 0o644),
				file("fd", "x", 0o600), directory("fd", 0o711), file("fd/a", "y", 0o600),
				directory("df", 0o555), file("df/a/b", "x", 0o600), directory("df/a", 0o500), file("df", "y", 0o600),
				directory("dl", 0o700), file("dl/a", "x", 0o600), symlink("dl", "fd"),
				symlink("lf", "ff"), file("lf", "own", 0o600),
				symlink("ld", "fd"), directory("ld", 0o700), file("ld/b", "z", 0o600),
				directory("dd", 0o700), file("dd/a", "x", 0o600), directory("dd", 0o750),
			},
			map[string]string{"ff": "file 0644 new", "fd": "directory 0711", "fd/a": "file 0600 y", "df": "file 0600 y",
				"dl": "link fd", "lf": "file 0600 own", "ld": "directory 0700", "ld/b": "file 0600 z",
				"fd/b": "no such file or directory", "dd": "directory 0750", "dd/a": "file 0600 x"}},
		{"an inode that is used again does not inherit a directory's mode",
			[]entry{directory("a", 0o500), file("a", "x", 0o600), file("b/c", "y", 0o600), directory("c", 0o711)},
			map[string]string{"a": "file 0600 x", "b": "directory 0755", "c": "directory 0711"}},
		{"a parent that is a link is followed inside the layer",
			[]entry{directory("usr/lib", 0o755), symlink("lib", "usr/lib"), file("lib/a", "x", 0o600),
				symlink("abs", "/usr/lib"), file("abs/b", "y", 0o600),
				symlink("usr/up", "../../../../usr/lib"), file("usr/up/c", "z", 0o600),
				directory("lib/d", 0o511), file("lib/d/e", "w", 0o600)},
			map[string]string{"usr/lib/a": "file 0600 x", "usr/lib/b": "file 0600 y", "usr/lib/c": "file 0600 z",
				"usr/lib/d": "directory 0511", "lib": "link usr/lib"}},
		{"a link that leads out leads to the layer's top",
			[]entry{symlink("l", "../.."), file("l/l/canary/x", "x", 0o600)},
			map[string]string{"canary": "directory 0755", "canary/x": "file 0600 x", "l": "link ../.."}},
		{"a link that is moved is followed to where it leads now",
			[]entry{directory("a", 0o755), directory("b", 0o755), symlink("l", "a"), file("l/1", "x", 0o600),
				symlink("l", "b"), file("l/2", "y", 0o600)},
			map[string]string{"a/1": "file 0600 x", "b/2": "file 0600 y", "a/2": "no such file or directory"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, _ := unpack(t, tc.entries...)
			for name, want := range tc.want {
				if got := describe(t, dir, name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestUnpackOddNames(t *testing.T) {
	var every []byte
	for c := 1; c < 256; c++ {
		if c != '/' {
			every = append(every, byte(c))
		}
	}
	names := []string{
		"-rf", "a\nb", "a\\b", "invalid \xff\xfe utf-8", " ", "…", "*", "...", "..a", ".wh", "wh..x", "=1", "\x7f",
		string(every), strings.Repeat("n", 255), strings.Repeat("ü", 127), strings.Repeat("d/", 500) + "deep",
	}
	var entries []entry
	for i, name := range names {
		entries = append(entries, gnuFile(name, fmt.Sprint(i)))
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatalf("%q: %v", e.Name, err)
		}
		io.WriteString(w, e.data)
	}
	w.Close()
	dir := layerDir(t)
	if _, err := Unpack(t.Context(), &out, dir, options()); err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		if got, want := describe(t, dir, name), fmt.Sprint("file 0600 ", i); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	top, err := os.ReadDir(dir)
	if err != nil || len(top) != len(names) {
		t.Errorf("%d names at the top, %v; want %d", len(top), err, len(names))
	}
}

// gnuFile returns a file in GNU's format, which permits names that are not UTF-8.
func gnuFile(name, data string) entry {
	return entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: int64(len(data)), Format: tar.FormatGNU}, data}
}

func TestUnpackTimes(t *testing.T) {
	times := map[string]time.Time{
		"d": stamp, "d/f": stamp.Add(time.Hour), "d/l": stamp.Add(2*time.Hour + time.Nanosecond), "d/e": stamp.Add(-time.Hour),
		"old": time.Unix(-5, 7), ".": stamp.Add(time.Minute),
	}
	at := func(e entry) entry {
		e.ModTime = times[filepath.Clean(e.Name)]
		return e
	}
	dir, _ := unpack(t, at(directory("./", 0o755)), at(directory("d", 0o555)), at(directory("d/e", 0o755)), at(file("d/f", "x", 0o600)),
		at(symlink("d/l", "/nowhere")), file("d/e/g", "x", 0o600), at(file("old", "", 0o600)))
	for name, want := range times {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.ModTime(); !got.Equal(want) {
			t.Errorf("%s: modified %v, want %v", name, got, want)
		}
	}
}

func TestUnpackHardLinksShareAFile(t *testing.T) {
	dir, _ := unpack(t, file("a/b", "x", 0o600), directory("c", 0o755), hardLink("c/d", "a/b"))
	a, err := os.Lstat(filepath.Join(dir, "a/b"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := os.Lstat(filepath.Join(dir, "c/d"))
	if err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(a, c) {
		t.Error("two files")
	}
}

func TestUnpackOwners(t *testing.T) {
	testenv.NeedRoot(t, "to give files to others")
	own := func(e entry, uid, gid int) entry {
		e.Uid, e.Gid = uid, gid
		return e
	}
	entries := []entry{
		own(directory("d", 0o2750), 33, 42), own(file("d/f", "x", 0o6755), 1000, 0), own(symlink("d/l", "f"), 0, 65534),
		own(entry{tar.Header{Typeflag: tar.TypeFifo, Name: "p", Mode: 0o600}, ""}, 7, 8),
		own(entry{tar.Header{Typeflag: tar.TypeBlock, Name: "b", Mode: 0o640, Devmajor: 8, Devminor: 300}, ""}, 0, 6),
		own(file("max", "", 0o600), 1<<32-2, 1<<32-2),
	}
	dir, _ := unpack(t, entries...)
	for _, e := range entries {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(dir, e.Name), &st); err != nil {
			t.Fatal(err)
		}
		if int(st.Uid) != e.Uid || int(st.Gid) != e.Gid {
			t.Errorf("%s: owner %d:%d, want %d:%d", e.Name, st.Uid, st.Gid, e.Uid, e.Gid)
		}
	}
	if got := describe(t, dir, "d/f"); got != "file 6755 x" {
		t.Errorf("after its owner changed: %s", got)
	}
	if got := describe(t, dir, "d"); got != "directory 2750" {
		t.Errorf("after its owner changed: %s", got)
	}

	opts := options()
	opts.Owners = false
	dir = layerDir(t)
	if _, err := Unpack(t.Context(), bytes.NewReader(archive(t, entries...)), dir, opts); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(dir, "d/f"), &st); err != nil || st.Uid != 0 || st.Gid != 0 {
		t.Errorf("owner %d:%d, %v without Owners", st.Uid, st.Gid, err)
	}
}

func TestUnpackDevices(t *testing.T) {
	device := func(kind byte, name string, major, minor int64) entry {
		return entry{tar.Header{Typeflag: kind, Name: name, Mode: 0o666, Devmajor: major, Devminor: minor}, ""}
	}
	dir, report := unpack(t, device(tar.TypeChar, "dev/null", 1, 3), device(tar.TypeChar, "mark", 0, 0), file("a", "x", 0o600))
	if got := describe(t, dir, "mark"); got != "no such file or directory" {
		t.Errorf("an archive made a whiteout: %s", got)
	}
	want, skipped := "device 0666 1/3", 1
	if os.Geteuid() != 0 {
		want, skipped = "no such file or directory", 2
	}
	if got := describe(t, dir, "dev/null"); got != want {
		t.Errorf("dev/null: %q, want %q", got, want)
	}
	if report.SkippedCount != skipped || len(report.Skipped) != skipped || !strings.HasPrefix(report.Skipped[skipped-1], `"mark": `) {
		t.Errorf("skipped %d: %q", report.SkippedCount, report.Skipped)
	}
	if got := describe(t, dir, "a"); got != "file 0600 x" {
		t.Errorf("a: %s", got)
	}
}

func TestUnpackXattrs(t *testing.T) {
	capability := "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" // cap_net_raw+ep
	with := func(e entry) entry {
		e.PAXRecords = map[string]string{
			paxXattr + "user.mine":               "a\nb=c",
			paxXattr + "user.overlay.opaque":     "y",
			paxXattr + "user.overlay.redirect":   "/etc",
			paxXattr + "trusted.overlay.opaque":  "y",
			paxXattr + "trusted.other":           "y",
			paxXattr + "security.selinux":        "y",
			paxXattr + "system.posix_acl_access": "y",
		}
		return e
	}
	tool := with(file("tool", "x", 0o555))
	tool.PAXRecords[paxXattr+"security.capability"] = capability
	dir, report := unpack(t, with(directory("d", 0o555)), tool)
	for _, name := range []string{"d", "tool"} {
		list := make([]byte, 4096)
		n, err := unix.Llistxattr(filepath.Join(dir, name), list)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.FieldsFunc(string(list[:n]), func(r rune) bool { return r == 0 })
		want := []string{"user.mine"}
		if name == "tool" && os.Geteuid() == 0 {
			want = []string{"security.capability", "user.mine"}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) && !slices.Contains(report.Skipped, fmt.Sprintf("%q: attribute user.mine: operation not supported", name)) {
			t.Errorf("%s has the attributes %q, want %q", name, got, want)
		}
	}
	if os.Geteuid() == 0 {
		value := make([]byte, 100)
		n, err := unix.Lgetxattr(filepath.Join(dir, "tool"), "security.capability", value)
		if err != nil || string(value[:n]) != capability {
			t.Errorf("capability %q, %v", value[:n], err)
		}
	} else if report.SkippedCount == 0 {
		t.Error("nothing tells that the capability is missing")
	}
}

func TestUnpackKeepsHoles(t *testing.T) {
	data := make([]byte, 8<<20)
	copy(data[1<<20:], "in the middle")
	ends := append(bytes.Clone(data), "end"...)
	dir, report := unpack(t, file("holes", string(data), 0o600), file("ends", string(ends), 0o600), file("zeros", string(data[:100]), 0o600))
	for name, want := range map[string][]byte{"holes": data, "ends": ends, "zeros": data[:100]} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes differ from the %d of the archive, %v", name, len(got), len(want), err)
		}
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(dir, name), &st); err != nil || st.Blocks*512 > 3*pieceSize {
			t.Errorf("%s takes %d bytes, %v", name, st.Blocks*512, err)
		}
	}
	if want := int64(len(data) + len(ends) + 100); report.Bytes != want || report.Files != 3 {
		t.Errorf("report %+v, want 3 files with %d bytes", report, want)
	}
}

func TestUnpackRefuses(t *testing.T) {
	long := strings.Repeat("n", 256)
	for _, tc := range []struct {
		name    string
		entries []entry
		want    string // in the error
	}{
		{"a name that leads out", []entry{file("../a", "x", 0o600)}, `entry "../a": the name leads outside of the layer`},
		{"a name that leads out on its way", []entry{file("b/../../a", "x", 0o600)}, `"b/../../a": the name leads out`},
		{"an absolute name that leads out", []entry{file("/../a", "x", 0o600)}, `"/../a": the name leads out`},
		{"a hard link that leads out", []entry{hardLink("a", "../canary")}, `entry "a": hard link to "../canary": the name leads out`},
		{"a hard link to a file of the machine", []entry{hardLink("a", "BASE/canary")}, `/canary", which this layer does not have`},
		{"a hard link through a link to the machine", []entry{symlink("l", "BASE"), hardLink("a", "l/canary")}, `hard link to "l/canary", which`},
		{"a hard link to a later file", []entry{hardLink("a", "b"), file("b", "x", 0o600)}, `entry "a": hard link to "b", which`},
		{"a hard link to a directory", []entry{directory("d", 0o700), hardLink("a", "d")}, `hard link to "d", which is not a file`},
		{"a hard link to a whiteout", []entry{file(".wh.d", "", 0), hardLink("a", "d")}, `hard link to "d", which is not a file`},
		{"a parent that is a link to what is not there", []entry{symlink("l", "BASE"), file("l/canary", "x", 0o600)}, `entry "l/canary": "l" is not a directory`},
		{"a parent that is a file", []entry{file("f", "x", 0o600), file("f/a", "x", 0o600)}, `entry "f/a": "f" is not a directory`},
		{"a parent that was a link until now", []entry{directory("d", 0o700), symlink("d/l", "."), file("d/l/l", "x", 0o600), file("d/l/x", "x", 0o600)}, `entry "d/l/x": "d/l" is not a directory`},
		{"links in a circle", []entry{symlink("a", "b"), symlink("b", "a"), file("a/c", "x", 0o600)}, `entry "a/c": `},
		{"a name that is too long", []entry{file(long, "x", 0o600)}, "file name too long"},
		{"a directory with a name that is too long", []entry{file(long+"/a", "x", 0o600)}, "file name too long"},
		{"a file at the top", []entry{file(".", "", 0o600)}, "the root of a layer must be a directory"},
		{"a link at the top", []entry{symlink(".", "/")}, "the root of a layer must be a directory"},
		{"a whiteout of the directory itself", []entry{file("d/.wh..", "", 0)}, "a whiteout without the name of a file"},
		{"a whiteout of the directory above", []entry{file("d/.wh...", "", 0)}, "a whiteout without the name of a file"},
		{"a whiteout of nothing", []entry{file(".wh.", "", 0)}, "a whiteout without the name of a file"},
		{"a file below a whiteout's name", []entry{file(".wh.a/b", "", 0)}, "a whiteout cannot be a directory"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := layerDir(t)
			base := filepath.Dir(dir)
			if err := os.WriteFile(filepath.Join(base, "canary"), []byte("safe"), 0o600); err != nil {
				t.Fatal(err)
			}
			for i := range tc.entries {
				tc.entries[i].Linkname = strings.ReplaceAll(tc.entries[i].Linkname, "BASE", base)
			}
			data := archive(t, tc.entries...)
			var err error
			fenced(t, base, func() { _, err = Unpack(t.Context(), bytes.NewReader(data), dir, options()) })
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if got := describe(t, base, "canary"); got != "file 0600 safe" {
				t.Errorf("the file beside the layer: %s", got)
			}
			if names, _ := os.ReadDir(base); len(names) != 2 {
				t.Errorf("beside the layer: %v", names)
			}
		})
	}
}

func TestUnpackRefusesOwnersThatDoNotExist(t *testing.T) {
	testenv.NeedRoot(t, "to give files to others")
	for _, uid := range []int{-1, 1<<32 - 1, 1 << 40} {
		e := file("a", "x", 0o600)
		e.Gid = uid
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		e.Format = tar.FormatGNU
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, e.data)
		w.Close()
		_, err := Unpack(t.Context(), &out, layerDir(t), options())
		if err == nil || !strings.Contains(err.Error(), `entry "a": there is no owner 0:`) {
			t.Errorf("group %d: %v", uid, err)
		}
	}
}

func TestUnpackLimits(t *testing.T) {
	data := archive(t, file("a", "12345", 0o600), file("b/c", "12345", 0o600))
	for _, tc := range []struct {
		name  string
		bytes int64
		files int
		want  string
	}{
		{"just enough", 1 << 14, 3, ""},
		{"too many bytes", 9, 3, `entry "b/c": the layer is larger than allowed: more than 9 bytes`},
		{"too many files", 1 << 14, 1, `entry "b/c": the layer is larger than allowed: more than 1 files`},
		{"directories that nobody spoke of count", 1 << 14, 2, `entry "b/c": the layer is larger than allowed: more than 2 files`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			opts := options()
			opts.MaxBytes, opts.MaxFiles = tc.bytes, tc.files
			_, err := Unpack(t.Context(), bytes.NewReader(data), layerDir(t), opts)
			if tc.want == "" && err == nil {
				return
			}
			if !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
	t.Run("endless padding", func(t *testing.T) {
		opts := options()
		opts.MaxBytes = 1 << 20
		_, err := Unpack(t.Context(), io.MultiReader(bytes.NewReader(data), endless{}), layerDir(t), opts)
		if !errors.Is(err, ErrLimit) {
			t.Errorf("error %v", err)
		}
	})
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestUnpackReadsToTheEnd(t *testing.T) {
	data := archive(t, file("a", "12345", 0o600))
	damaged := errors.New("damaged")
	_, err := Unpack(t.Context(), io.MultiReader(bytes.NewReader(data), strings.NewReader("padding"), failing{damaged}), layerDir(t), options())
	if !errors.Is(err, damaged) {
		t.Errorf("error %v, want what the reader says at its end", err)
	}
	for _, cut := range []int{100, 514} { // within the header, within the data
		_, err = Unpack(t.Context(), bytes.NewReader(data[:cut]), layerDir(t), options())
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut after %d bytes: %v", cut, err)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestUnpackStopsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	data := archive(t, file("a", strings.Repeat("x", 1<<20), 0o600), file("b", "", 0o600))
	dir := layerDir(t)
	read := 0
	_, err := Unpack(ctx, readerFunc(func(p []byte) (int, error) {
		if read > 1<<19 {
			cancel()
		}
		n := copy(p, data[read:])
		read += n
		return n, nil
	}), dir, options())
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if got := describe(t, dir, "b"); got != "no such file or directory" {
		t.Errorf("went on after it was cancelled: %s", got)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestUnpackNeedsEmptyDirectory(t *testing.T) {
	dir := layerDir(t)
	if err := os.WriteFile(filepath.Join(dir, "a"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Unpack(t.Context(), bytes.NewReader(archive(t)), dir, options())
	if err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("error %v", err)
	}
	if _, err := Unpack(t.Context(), bytes.NewReader(archive(t)), filepath.Join(dir, "none"), options()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if _, err := Unpack(t.Context(), nil, layerDir(t), UnpackOptions{}); err == nil || !strings.Contains(err.Error(), `Xattr is ""`) {
		t.Errorf("error %v", err)
	}
}

func TestUnpackReportsOpaqueLayer(t *testing.T) {
	if _, report := unpack(t, file(".wh..wh..opq", "", 0)); !report.Opaque {
		t.Error("not opaque")
	}
	if _, report := unpack(t, file("d/.wh..wh..opq", "", 0)); report.Opaque {
		t.Error("opaque")
	}
}
