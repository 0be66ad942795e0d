package environment

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// archive returns a tar stream. An entry without a type is a file, or a directory if its name ends
// with a slash.
func archive(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range entries {
		content := h.Linkname
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
			if strings.HasSuffix(h.Name, "/") {
				h.Typeflag = tar.TypeDir
			}
		}
		if h.Typeflag == tar.TypeReg {
			h.Linkname, h.Size = "", int64(len(content))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, content); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// file returns an entry for archive.
func file(name, content string) tar.Header {
	return tar.Header{Name: name, Linkname: content, Mode: 0o600}
}

// show lists a directory: mode, path and content on one line each.
func show(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		content := ""
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content = " " + string(data)
		}
		name, _ := filepath.Rel(dir, path)
		fmt.Fprintf(&b, "%v %s%s\n", info.Mode(), name, content)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestExtract(t *testing.T) {
	long := strings.Repeat("é", 200)
	const shortened = "~df20b2aa"
	for _, test := range []struct {
		name    string
		strip   string
		opts    ExtractOptions
		entries []tar.Header
		want    string // see show
		renamed string
		omitted string
		err     error
	}{
		{
			name: "modes and owners are not taken from the archive", strip: "logs",
			entries: []tar.Header{{Name: "logs/"}, {Name: "logs/d/", Mode: 0}, {Name: "logs/d/f", Linkname: "x", Mode: 0o6000, Uid: 7}},
			want:    "drwxr-xr-x d\n-rw-r--r-- d/f x\n",
		},
		{
			name: "missing directories are made", strip: "logs",
			entries: []tar.Header{file("logs/a/b/f", "x")},
			want:    "drwxr-xr-x a\ndrwxr-xr-x a/b\n-rw-r--r-- a/b/f x\n",
		},
		{
			name: "a single file keeps its name", strip: "reward.txt",
			entries: []tar.Header{file("reward.txt", "1")},
			want:    "-rw-r--r-- reward.txt 1\n",
		},
		{
			name: "an empty strip removes nothing", strip: "",
			entries: []tar.Header{file("./a", "1"), file("b//c", "2")},
			want:    "-rw-r--r-- a 1\ndrwxr-xr-x b\n-rw-r--r-- b/c 2\n",
		},
		{
			name: "paths to the outside are omitted", strip: "logs",
			entries: []tar.Header{file("/etc/passwd", "x"), file("logs/../../up", "x"), file("../logs/up", "x"), file("other/f", "x"),
				file("logs", "a file beside a directory"), file("logs/fine", "x")},
			want:    "-rw-r--r-- fine x\n-rw-r--r-- logs a file beside a directory\n",
			omitted: "[{/etc/passwd its path leads outside} {logs/../../up its path leads outside} {../logs/up its path leads outside} {other/f not below the requested path}]",
		},
		{
			name: "links and devices are omitted, entries below them are written", strip: "logs",
			entries: []tar.Header{
				{Name: "logs/s", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, file("logs/s/passwd", "x"),
				{Name: "logs/h", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}, file("logs/h", "x"),
				{Name: "logs/c", Typeflag: tar.TypeChar}, {Name: "logs/b", Typeflag: tar.TypeBlock}, {Name: "logs/p", Typeflag: tar.TypeFifo},
			},
			want:    "-rw-r--r-- h x\ndrwxr-xr-x s\n-rw-r--r-- s/passwd x\n",
			omitted: "[{s a symbolic link to /etc} {h a hard link to /etc/passwd} {c a device} {b a device} {p a named pipe}]",
		},
		{
			name: "a source that is a link is omitted", strip: "logs",
			entries: []tar.Header{{Name: "logs", Typeflag: tar.TypeSymlink, Linkname: "/etc"}},
			omitted: "[{logs a symbolic link to /etc}]",
		},
		{
			name: "the first of two entries with one name wins", strip: "logs",
			entries: []tar.Header{file("logs/f", "1"), file("logs/f", "2"), file("logs/f/g", "3"), {Name: "logs/f/"}, {Name: "logs/d/"}, {Name: "logs/d/"}, file("logs/d", "4")},
			want:    "drwxr-xr-x d\n-rw-r--r-- f 1\n",
			omitted: "[{f already there} {f a file is where its directory should be} {f/g a file is where its directory should be} {d already there}]",
		},
		{
			name: "names that differ only in case get a number", strip: "logs",
			entries: []tar.Header{file("logs/A", "1"), file("logs/a", "2"), {Name: "logs/D/"}, file("logs/d/f", "3"), file("logs/D/f", "4"), file("logs/a~2", "5")},
			want:    "-rw-r--r-- A 1\ndrwxr-xr-x D\n-rw-r--r-- D/f 4\n-rw-r--r-- a~2 2\n-rw-r--r-- a~2~2 5\ndrwxr-xr-x d~2\n-rw-r--r-- d~2/f 3\n",
			renamed: "[{a a~2} {d d~2} {a~2 a~2~2}]",
		},
		{
			name: "names that differ only in Unicode form get a number", strip: "",
			entries: []tar.Header{file("\u00e9", "1"), file("e\u0301", "2"), file("E\u0301", "3"), file("veri\ufb01er", "4"), file("verifier", "5"), file("\u212a", "6"), file("k", "7")},
			want:    "-rw-r--r-- E\u0301~3 3\n-rw-r--r-- e\u0301~2 2\n-rw-r--r-- k~2 7\n-rw-r--r-- verifier~2 5\n-rw-r--r-- veri\ufb01er 4\n-rw-r--r-- \u00e9 1\n-rw-r--r-- \u212a 6\n",
			renamed: "[{e\u0301 e\u0301~2} {E\u0301 E\u0301~3} {verifier verifier~2} {k k~2}]",
		},
		{
			name: "entries that collide with a reserved path are renamed, even if they come first", strip: "logs",
			opts: ExtractOptions{
				Reserved: []string{"verifier/reward.txt", "agent"},
				SafeName: func(s string) string { return strings.TrimRight(s, ". ") },
			},
			entries: []tar.Header{
				file("logs/VERIFIER/reward.txt", "planted"), file("logs/Agent", "a file"), file("logs/veri\ufb01er/x", "planted"), file("logs/verifier. ", "a file"),
				{Name: "logs/Verifier", Typeflag: tar.TypeSymlink, Linkname: "verifier"}, file("logs/verifier/REWARD.TXT", "not it"),
				file("logs/verifier/reward.txt", "1"), file("logs/agent/log", "2"), file("logs/verifier~2/x", "3"),
			},
			want: "-rw-r--r-- Agent~2 a file\ndrwxr-xr-x VERIFIER~2\n-rw-r--r-- VERIFIER~2/reward.txt planted\ndrwxr-xr-x agent\n-rw-r--r-- agent/log 2\n" +
				"drwxr-xr-x verifier\n-rw-r--r-- verifier/REWARD.TXT~2 not it\n-rw-r--r-- verifier/reward.txt 1\n" +
				"drwxr-xr-x verifier~2~2\n-rw-r--r-- verifier~2~2/x 3\n-rw-r--r-- verifier~4 a file\n" +
				"drwxr-xr-x veri\ufb01er~3\n-rw-r--r-- veri\ufb01er~3/x planted\n",
			renamed: "[{VERIFIER VERIFIER~2} {Agent Agent~2} {veri\ufb01er veri\ufb01er~3} {verifier.  verifier~4} {verifier/REWARD.TXT verifier/REWARD.TXT~2} {verifier~2 verifier~2~2}]",
			omitted: "[{Verifier a symbolic link to verifier}]",
		},
		{
			name: "each path element is made safe and unique", strip: "logs",
			opts:    ExtractOptions{SafeName: func(s string) string { return strings.NewReplacer(":", "_", "?", "_").Replace(s) }},
			entries: []tar.Header{file("logs/a:b/c?", "1"), file("logs/a?b/c?", "2"), file("logs/a:b/c:", "3"), file("logs/a:b/c?", "4")},
			want:    "drwxr-xr-x a_b\n-rw-r--r-- a_b/c_ 1\n-rw-r--r-- a_b/c_~2 3\ndrwxr-xr-x a_b~2\n-rw-r--r-- a_b~2/c_ 2\n",
			renamed: "[{a:b a_b} {a:b/c? a_b/c_} {a?b a_b~2} {a?b/c? a_b~2/c_} {a:b/c: a_b/c_~2}]",
			omitted: "[{a:b/c? already there}]",
		},
		{
			name: "SafeName cannot return a path", strip: "logs",
			opts: ExtractOptions{SafeName: func(s string) string {
				return map[string]string{"up": "..", "here": ".", "none": "", "deep": "../x/y"}[s]
			}},
			entries: []tar.Header{file("logs/up", "1"), file("logs/here", "2"), file("logs/none", "3"), file("logs/deep", "4")},
			want:    "-rw-r--r-- .._x_y 4\n-rw-r--r-- _ 1\n-rw-r--r-- _~2 2\n-rw-r--r-- _~3 3\n",
			renamed: "[{up _} {here _~2} {none _~3} {deep .._x_y}]",
		},
		{
			name: "names that are too long are cut", strip: "logs",
			entries: []tar.Header{file("logs/"+long, "x")},
			want:    "-rw-r--r-- " + strings.Repeat("é", 123) + shortened + " x\n",
			renamed: "[{" + long + " " + strings.Repeat("é", 123) + shortened + "}]",
		},
		{
			name: "paths that are too deep are omitted", strip: "",
			entries: []tar.Header{file(strings.Repeat("d/", 64)+"f", "x"), file("f", "x")},
			want:    "-rw-r--r-- f x\n",
			omitted: "[{" + strings.Repeat("d/", 64) + "f its path is too long or too deep}]",
		},
		{
			name: "too many files", strip: "", opts: ExtractOptions{MaxFiles: 2},
			entries: []tar.Header{file("a", "1"), file("b", "2"), file("c", "3")},
			want:    "-rw-r--r-- a 1\n-rw-r--r-- b 2\n",
			err:     ErrTooLarge,
		},
		{
			name: "parent directories count as files", strip: "", opts: ExtractOptions{MaxFiles: 3},
			entries: []tar.Header{file("a/b/c/d", "1"), file("e", "1")},
			want:    "drwxr-xr-x a\ndrwxr-xr-x a/b\ndrwxr-xr-x a/b/c\n",
			err:     ErrTooLarge,
		},
		{
			name: "omitted entries count, too", strip: "", opts: ExtractOptions{MaxFiles: 2},
			entries: []tar.Header{{Name: "a", Typeflag: tar.TypeFifo}, {Name: "b", Typeflag: tar.TypeFifo}, file("c", "3")},
			omitted: "[{a a named pipe} {b a named pipe}]",
			err:     ErrTooLarge,
		},
		{
			name: "a file that exceeds the limit", strip: "", opts: ExtractOptions{MaxBytes: 5},
			entries: []tar.Header{file("a", "123"), file("b", "456"), file("c", "7")},
			want:    "-rw-r--r-- a 123\n",
			omitted: "[{b larger than the rest of the limit}]",
			err:     ErrTooLarge,
		},
		{
			name: "as many files as allowed", strip: "logs", opts: ExtractOptions{MaxFiles: 3, MaxBytes: 6},
			entries: []tar.Header{{Name: "logs/"}, file("logs/d/a", "123"), file("logs/d/b", "456")},
			want:    "drwxr-xr-x d\n-rw-r--r-- d/a 123\n-rw-r--r-- d/b 456\n",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			dst := t.TempDir()
			got, err := Extract(bytes.NewReader(archive(t, test.entries...)), dst, test.strip, test.opts)
			if !errors.Is(err, test.err) {
				t.Errorf("error %v, want %v", err, test.err)
			}
			if shown := show(t, dst); shown != test.want {
				t.Errorf("on disk\n%swant\n%s", shown, test.want)
			}
			if want := "[]"; fmt.Sprint(got.Renamed) != max(test.renamed, want) {
				t.Errorf("renamed %v, want %s", got.Renamed, test.renamed)
			}
			if want := "[]"; fmt.Sprint(got.Omitted) != max(test.omitted, want) {
				t.Errorf("omitted %v, want %s", got.Omitted, test.omitted)
			}
			if n := strings.Count(test.want, "\n"); got.Files != n {
				t.Errorf("Files = %d, want %d", got.Files, n)
			}
		})
	}
}

func TestExtractKeepsExistingFiles(t *testing.T) {
	dst, outside := t.TempDir(), t.TempDir()
	err := errors.Join(
		os.WriteFile(filepath.Join(dst, "f"), []byte("old"), 0o600),
		os.Mkdir(filepath.Join(dst, "d"), 0o700),
		os.Symlink(outside, filepath.Join(dst, "out")),
		os.Symlink("d", filepath.Join(dst, "in")),
	)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Extract(bytes.NewReader(archive(t,
		file("f", "new"), file("d/f", "new"), file("out/f", "new"), file("in/f", "new"), file("out", "new"))), dst, "", ExtractOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const want = "[{f already there} {out a file is where its directory should be} {out/f a file is where its directory should be} " +
		"{in a file is where its directory should be} {in/f a file is where its directory should be} {out already there}]"
	if fmt.Sprint(got.Omitted) != want || got.Files != 1 {
		t.Errorf("%d files, omitted %v, want %s", got.Files, got.Omitted, want)
	}
	if data, err := os.ReadFile(filepath.Join(dst, "f")); err != nil || string(data) != "old" {
		t.Errorf("%q, %v", data, err)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("outside: %v, %v", entries, err)
	}
}

func TestExtractRenamesOnCollisionWithExistingFiles(t *testing.T) {
	dst := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dst, "verifier"), 0o755), os.WriteFile(filepath.Join(dst, "verifier", "stdout.txt"), []byte("1"), 0o600)); err != nil {
		t.Fatal(err)
	}
	got, err := Extract(bytes.NewReader(archive(t,
		file("VERIFIER/stdout.txt", "planted"), file("verifier/STDOUT.txt", "planted"), file("verifier/stdout.txt", "planted"), file("verifier/ctrf.json", "2"))),
		dst, "", ExtractOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got.Omitted, got.Renamed) != "[{verifier/stdout.txt already there}] [{VERIFIER VERIFIER~2} {verifier/STDOUT.txt verifier/STDOUT.txt~2}]" {
		t.Errorf("omitted %v, renamed %v", got.Omitted, got.Renamed)
	}
	for name, want := range map[string]string{
		"verifier/stdout.txt": "1", "verifier/ctrf.json": "2", "VERIFIER~2/stdout.txt": "planted", "verifier/STDOUT.txt~2": "planted",
	} {
		if data, err := os.ReadFile(filepath.Join(dst, name)); err != nil || string(data) != want {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
}

func TestTapGetsNoIncompleteFile(t *testing.T) {
	data := archive(t, file("reward.txt", "1.25e-7"))
	told := false
	tap := func(name string, size int64) io.Writer {
		if name != "reward.txt" || size != 7 {
			t.Errorf("Tap was called with %s of %d bytes", name, size)
		}
		return writerFunc(func(p []byte) (int, error) { told = true; return len(p), nil })
	}
	_, err := Extract(bytes.NewReader(data[:512+1]), t.TempDir(), "", ExtractOptions{Tap: tap})
	if !errors.Is(err, io.ErrUnexpectedEOF) || told {
		t.Errorf("error %v, the tap got %v", err, told)
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestExtractKeepsFilesBeforeABreak(t *testing.T) {
	dst := t.TempDir()
	data := archive(t, file("a", "first"), file("b", strings.Repeat("x", 2000)))
	got, err := Extract(bytes.NewReader(data[:512+512+512+1000]), dst, "", ExtractOptions{})
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v, want %v", err, io.ErrUnexpectedEOF)
	}
	if got.Files != 2 || got.Bytes != 1005 {
		t.Errorf("%d files, %d bytes", got.Files, got.Bytes)
	}
	if text := show(t, dst); text != "-rw-r--r-- a first\n-rw-r--r-- b "+strings.Repeat("x", 1000)+"\n" {
		t.Errorf("on disk: %s", text)
	}
	for size := range len(data) - 512 { // at each byte before the mark of the end
		for name, r := range map[string]io.Reader{
			"the end by itself": bytes.NewReader(data[:size]), "the end with data": iotest.DataErrReader(bytes.NewReader(data[:size])),
		} {
			if _, err := Extract(r, dst, "", ExtractOptions{}); !errors.Is(err, ErrCutArchive) {
				t.Fatalf("%d of %d bytes, %s: error %v", size, len(data), name, err)
			}
		}
		if size%100 == 0 {
			dst = t.TempDir()
		}
	}
	broken := io.MultiReader(bytes.NewReader(data[:1500]), iotest.ErrReader(io.ErrUnexpectedEOF))
	if _, err := Extract(broken, t.TempDir(), "", ExtractOptions{}); errors.Is(err, ErrCutArchive) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a broken connection: error %v", err)
	}
	if _, err := Extract(strings.NewReader(strings.Repeat("no tar ", 200)), dst, "", ExtractOptions{}); !errors.Is(err, tar.ErrHeader) {
		t.Errorf("error %v, want %v", err, tar.ErrHeader)
	}
}

// reverser is a filter that writes its input reversed when it is closed.
type reverser struct {
	w    io.Writer
	text []byte
}

func (r *reverser) Write(p []byte) (int, error) {
	r.text = append(p[:len(p):len(p)], r.text...)
	return len(p), nil
}
func (r *reverser) Close() error {
	_, err := fmt.Fprintf(r.w, "<%s>", r.text)
	return err
}

func TestExtractFilters(t *testing.T) {
	dst := t.TempDir()
	got, err := Extract(bytes.NewReader(archive(t, file("a", "text"), file("empty", ""))), dst, "", ExtractOptions{
		Filter: func(w io.Writer) io.WriteCloser { return &reverser{w: w} },
	})
	if err != nil || got.Bytes != 4 {
		t.Errorf("%d bytes, %v", got.Bytes, err)
	}
	if text := show(t, dst); text != "-rw-r--r-- a <text>\n-rw-r--r-- empty <>\n" {
		t.Errorf("on disk: %s", text)
	}
}

// An engine sends a sparse file with all its zeros.
func TestExtractStopsAtHugeFiles(t *testing.T) {
	var stream bytes.Buffer
	if err := tar.NewWriter(&stream).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "huge", Size: 10 << 30}); err != nil {
		t.Fatal(err)
	}
	dst := t.TempDir()
	got, err := Extract(io.MultiReader(&stream, zeros{}), dst, "", ExtractOptions{})
	if !errors.Is(err, ErrTooLarge) || got.Bytes != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if text := show(t, dst); text != "" {
		t.Errorf("on disk: %s", text)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestExtractLimitsItsLists(t *testing.T) {
	var entries []tar.Header
	for i := range 150 {
		entries = append(entries, tar.Header{Name: fmt.Sprint(i, strings.Repeat("x", 1000)), Typeflag: tar.TypeFifo})
	}
	got, err := Extract(bytes.NewReader(archive(t, entries...)), t.TempDir(), "", ExtractOptions{})
	if err != nil || len(got.Omitted) != 100 || len(got.Omitted[0].Path) > 520 {
		t.Errorf("%d omitted, the first with %d bytes, %v", len(got.Omitted), len(got.Omitted[0].Path), err)
	}
}

// FuzzExtract extracts streams that may be no archives. Whatever they are, only plain files and
// directories may be written, within the limits and the destination.
func FuzzExtract(f *testing.F) {
	f.Add(archive(f, tar.Header{Name: "logs/"}, file("logs/a:b", "1"), file("/abs", "2"), file("../up", "3")), "logs")
	f.Add(archive(f, tar.Header{Name: "s", Typeflag: tar.TypeSymlink, Linkname: ".."}, file("s/x", "1"), file("s", "2")), "")
	f.Add(archive(f, file(strings.Repeat("n", 300), "1"), file(strings.Repeat("d/", 90), "2"), file("A", "1"), file("a", "2")), "")
	owned := file("logs/.git/a:b", "1")
	owned.Mode, owned.Uid, owned.Gid = 0o6640, 1234, 5678
	f.Add(archive(f, tar.Header{Name: "logs/", Mode: 0o2700}, owned, tar.Header{Name: "logs/.git/", Mode: 0o1777, Uid: 7}, link("logs/s", "/etc"), hard("logs/h", "logs/.git/a:b")), "logs")
	f.Fuzz(func(t *testing.T, data []byte, strip string) {
		around := t.TempDir()
		dst := filepath.Join(around, "dst")
		if err := os.Mkdir(dst, 0o755); err != nil {
			t.Fatal(err)
		}
		limits := ExtractOptions{MaxBytes: 1 << 16, MaxFiles: 50, SafeName: func(s string) string { return strings.ReplaceAll(s, ":", "") }}
		got, failed := Extract(bytes.NewReader(data), dst, strip, limits)
		beside, err := os.ReadDir(around)
		if err != nil || len(beside) != 1 {
			t.Fatalf("outside of the destination: %v, %v", beside, err)
		}
		files, size := 0, int64(0)
		err = filepath.WalkDir(dst, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || path == dst {
				return err
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			files++
			if info.Mode().IsRegular() {
				size += info.Size()
			} else if !info.IsDir() {
				t.Errorf("%s is a %v", path, info.Mode())
			}
			return nil
		})
		if err != nil || files != got.Files || files > limits.MaxFiles || size != got.Bytes || size > limits.MaxBytes {
			t.Errorf("%d files with %d bytes on disk, %d and %d reported, %v", files, size, got.Files, got.Bytes, err)
		}
		if err := CheckEntries(got.Entries); err != nil {
			t.Error(err)
		}
		if failed == nil && !got.Incomplete && !got.Single {
			goesInAgain(t, dst, got, limits)
		}
	})
}

// goesInAgain packs the extracted files as for an environment, and extracts them again: the entries
// and links are the same.
func goesInAgain(t *testing.T, dst string, got Extracted, limits ExtractOptions) {
	t.Helper()
	var stream bytes.Buffer
	if err := Pack(&stream, Copy{Src: os.DirFS(dst), Dst: "/in", Clean: true, Entries: got.Entries, Links: got.Links}); err != nil {
		t.Fatalf("pack %+v: %v", got.Entries, err)
	}
	reader := tar.NewReader(&stream)
	if _, err := reader.Next(); err != nil { // the file that a clean copy begins with
		t.Fatal(err)
	}
	var names []string
	for h, err := reader.Next(); err != io.EOF; h, err = reader.Next() {
		if err != nil {
			t.Fatal(err)
		}
		if h.Mode&0o4000 != 0 || h.Mode&0o2000 != 0 && h.Typeflag != tar.TypeDir || !strings.HasPrefix(h.Name, "in/") || strings.Contains(h.Name, "..") && !fs.ValidPath(strings.Trim(h.Name, "/")) {
			t.Errorf("%s has mode %o", h.Name, h.Mode)
		}
		names = append(names, strings.TrimSuffix(h.Name, "/"))
	}
	for _, e := range got.Entries {
		if !slices.Contains(names, path.Join("in", e.Path)) {
			t.Errorf("%q is not among %q", e.Path, names)
		}
	}
}

// A directory in the place of a file is not read.
func TestExtractWantsAFile(t *testing.T) {
	for name, entries := range map[string][]tar.Header{
		"with an entry":    {{Name: "out/", Typeflag: tar.TypeDir}, file("out/out", "planted")},
		"without an entry": {file("out/out", "planted"), file("out/other", "x")},
	} {
		options := ExtractOptions{File: true, Tap: func(string, int64) io.Writer { t.Errorf("%s: a file was read", name); return nil }}
		got, err := Extract(bytes.NewReader(archive(t, entries...)), t.TempDir(), "out", options)
		if err != nil || got.Files != 0 || fmt.Sprint(got.Omitted) != "[{out a directory}]" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if got, err := Extract(bytes.NewReader(archive(t, file("out", "1"))), t.TempDir(), "out", ExtractOptions{File: true}); err != nil || got.Files != 1 || !got.Single {
		t.Errorf("a file: %+v, %v", got, err)
	}
}

func TestExtractSkips(t *testing.T) {
	dst := t.TempDir()
	var asked []string
	got, err := Extract(bytes.NewReader(archive(t, file("src/a", "1"), file("src/skip/b", "2"), file("src/c", "3"))), dst, "src", ExtractOptions{
		MaxFiles: 2, // skipped files do not count
		Skip: func(path string) bool {
			asked = append(asked, path)
			return strings.HasPrefix(path, "skip")
		},
	})
	if err != nil || got.Files != 2 || got.Single || len(got.Omitted) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if fmt.Sprint(asked) != "[a skip/b c]" {
		t.Errorf("Skip was called with %q", asked)
	}
}

func TestExtractReportsSingleFiles(t *testing.T) {
	for name, tc := range map[string]struct {
		entries []tar.Header
		want    bool
	}{
		"a file":                           {[]tar.Header{file("out", "1")}, true},
		"a pipe":                           {[]tar.Header{{Name: "out", Typeflag: tar.TypeFifo}}, true},
		"a directory with one of its name": {[]tar.Header{{Name: "out/"}, file("out/out", "1")}, false},
		"an empty directory":               {[]tar.Header{{Name: "out/"}}, false},
		"a directory without an entry":     {[]tar.Header{file("out/x", "1")}, false},
	} {
		got, err := Extract(bytes.NewReader(archive(t, tc.entries...)), t.TempDir(), "out", ExtractOptions{})
		if err != nil || got.Single != tc.want {
			t.Errorf("%s: single %v, %v", name, got.Single, err)
		}
	}
}
