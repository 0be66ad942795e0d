package archive

import (
	"archive/zip"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pack returns an archive with files of these names, each with its name as its text.
func pack(t *testing.T, names ...string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range names {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(strings.TrimSuffix(name, "/"))); err != nil && !strings.HasSuffix(name, "/") {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return store(t, b.Bytes())
}

func store(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.zip")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFilesOfAnArchiveAreRead(t *testing.T) {
	a, err := Open(pack(t, "job/", "job/plan.json", "job/a/d/t__1/logs/a b#?.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for _, name := range []string{"job/plan.json", "job/a/d/t__1/logs/a b#?.txt"} {
		if text, err := fs.ReadFile(a, name); err != nil || string(text) != name {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

func TestHostileArchivesAreRefused(t *testing.T) {
	for _, names := range [][]string{
		{"../x"}, {"a/../../x"}, {"/etc/passwd"}, {`a\..\x`}, {`C:\x`}, {"a//b"}, {"a/./b"}, {"a", "a"}, {"a", "./a"}, {""}, {strings.Repeat("a/", 100) + "b"},
	} {
		if a, err := Open(pack(t, names...)); err == nil {
			_ = a.Close()
			t.Errorf("%.40q was opened", names)
		}
	}
	for name, data := range map[string][]byte{"nothing": nil, "text": []byte("hello"), "a torn one": []byte("PK\x03\x04")} {
		if a, err := Open(store(t, data)); err == nil {
			_ = a.Close()
			t.Errorf("%s was opened", name)
		}
	}
}

// The sizes in an archive may lie.
func TestImpossibleSizesAreRefused(t *testing.T) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.CreateRaw(&zip.FileHeader{Name: "bomb", Method: zip.Deflate, CompressedSize64: 10, UncompressedSize64: 1 << 40})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if a, err := Open(store(t, b.Bytes())); err == nil {
		_ = a.Close()
		t.Error("it was opened")
	}
}
