package job

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/result"
)

// tarred is a folder as a tar, its entries below prefix.
func (s *scene) tarred(dir, prefix string) []byte {
	s.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	s.check(filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		below, err := filepath.Rel(dir, path)
		s.check(err)
		text := s.read(path)
		s.check(w.WriteHeader(&tar.Header{Name: prefix + filepath.ToSlash(below), Mode: 0o600, Size: int64(len(text)), Typeflag: tar.TypeReg}))
		_, err = io.WriteString(w, text)
		return err
	}))
	s.check(w.Close())
	return b.Bytes()
}

func gzipped(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(data) // into memory
	_ = w.Close()
	return b.Bytes()
}

func (s *scene) zipped(files map[string]string) []byte {
	s.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := w.Create(name)
		s.check(err)
		_, err = io.WriteString(f, files[name])
		s.check(err)
	}
	s.check(w.Close())
	return b.Bytes()
}

func TestShardsAreFoundWhereverArtifactsPutThem(t *testing.T) {
	s := newScene(t)
	s.run(s.in("whole"), 0, 0, nil)
	s.shards(6)
	shard := func(i string) string { return s.in("shards", i) }
	move := func(i string, to ...string) {
		s.check(os.MkdirAll(filepath.Dir(s.in(to...)), 0o755))
		s.check(os.Rename(shard(i), s.in(to...)))
	}
	// A folder, one three levels down, a tar, a compressed one, a zip, and a zip with a tar in it.
	move("1", "down", "rollout-shard-1-of-6")
	move("2", "down", "rollout-shard-2-of-6", "jobs", "nightly.shard-2-of-6")
	s.write(s.in("down", "rollout-shard-3-of-6", "job.tar"), string(s.tarred(shard("3"), "./nightly.shard-3-of-6/")))
	s.write(s.in("down", "4.tgz"), string(gzipped(s.tarred(shard("4"), ""))))
	s.write(s.in("down", "5.zip"), string(s.zipped(s.content(shard("5")))))
	s.write(s.in("down", "6.ZIP"), string(s.zipped(map[string]string{"jobs/job.tar.gz": string(gzipped(s.tarred(shard("6"), "jobs/x/")))})))
	s.check(os.RemoveAll(s.in("shards")))
	merged := s.mustMerge("down")
	if len(merged.Incomplete)+len(merged.Notes) > 0 || merged.Merged != 6 {
		t.Errorf("incomplete %q, notes %q", merged.Incomplete, merged.Notes)
	}
	if s.read(s.in("jobs", "nightly", result.ResultFile)) != s.read(s.in("whole", result.ResultFile)) {
		t.Error("the result differs from that of the whole run")
	}
	s.nothingLeft()

	// An archive can be named itself. What it is called is told as it was given.
	merged = s.mustMerge("down/4.tgz")
	if merged.Merged != 1 || !strings.Contains(s.read(s.in("jobs", "nightly", result.MergeFile)), `"folder": "down/4.tgz"`) {
		t.Errorf("%d shards were merged", merged.Merged)
	}
}

func TestArchivesThatCannotBeUnpackedAreSaid(t *testing.T) {
	s := newScene(t)
	s.shards(3)
	packed := gzipped(s.tarred(s.in("shards", "2"), ""))
	s.write(s.in("shards", "2.tgz"), string(packed[:len(packed)/2]))
	s.write(s.in("shards", "3.zip"), "no zip")
	s.check(os.RemoveAll(s.in("shards", "2")))
	s.check(os.RemoveAll(s.in("shards", "3")))
	merged := s.mustMerge()
	s.says(merged.Notes, "shards/2.tgz cannot be unpacked")
	s.says(merged.Notes, "shards/3.zip cannot be unpacked")
	s.says(merged.Incomplete, "shard 2/3 is missing")
	s.says(merged.Incomplete, "shard 3/3 is missing")
}

// hostile are entries that no run writes.
func hostile() []tar.Header {
	return []tar.Header{
		{Name: "../escaped.txt", Typeflag: tar.TypeReg},
		{Name: "/absolute.txt", Typeflag: tar.TypeReg},
		{Name: "a/../../escaped.txt", Typeflag: tar.TypeReg},
		{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "/etc"},
		{Name: "link/passwd", Typeflag: tar.TypeReg},
		{Name: "hard", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"},
		{Name: "device", Typeflag: tar.TypeChar},
		{Name: "pipe", Typeflag: tar.TypeFifo},
		{Name: ".hidden/x", Typeflag: tar.TypeReg},
		{Name: "a:b", Typeflag: tar.TypeReg},
		{Name: "new\nline", Typeflag: tar.TypeReg},
		{Name: `back\slash`, Typeflag: tar.TypeReg},
		{Name: strings.Repeat("d/", 70) + "deep", Typeflag: tar.TypeReg},
		{Name: strings.Repeat(strings.Repeat("x", 150)+"/", 15) + "long", Typeflag: tar.TypeReg},
		{Name: "../folder/", Typeflag: tar.TypeDir},
	}
}

// unpacked unpacks an archive into the folder x, and returns what is in the scene's folder then.
func (s *scene) unpacked(name string, data []byte) (map[string]string, *merge, error) {
	s.Helper()
	s.write(s.in(name), string(data))
	s.check(os.MkdirAll(s.in("deep", "x"), 0o755))
	m := &merge{}
	err := m.unpack(s.Context(), s.in(name), s.in("deep", "x"))
	files := s.content(s.dir)
	delete(files, name)
	s.check(os.RemoveAll(s.in("deep")))
	return files, m, err
}

func TestHostileTarsStayInTheirFolder(t *testing.T) {
	s := newScene(t)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	s.check(w.WriteHeader(&tar.Header{Name: "./", Typeflag: tar.TypeDir}))
	s.check(w.WriteHeader(&tar.Header{Name: "good/", Typeflag: tar.TypeDir}))
	s.check(w.WriteHeader(&tar.Header{Name: "good/file.txt", Typeflag: tar.TypeReg, Mode: 0o6777, Size: 2}))
	_, err := io.WriteString(w, "ok")
	s.check(err)
	for _, h := range hostile() {
		s.check(w.WriteHeader(&h))
	}
	s.check(w.Close())
	files, m, err := s.unpacked("hostile.tar", b.Bytes())
	s.check(err)
	// link/passwd is an ordinary file, as there is no link.
	want := map[string]string{"deep/x/good/file.txt": "ok", "deep/x/link/passwd": ""}
	if !maps.Equal(files, want) {
		t.Errorf("got %q", files)
	}
	if n := len(hostile()) - 1; m.skipped.n != n {
		t.Errorf("%d entries were left out, want %d", m.skipped.n, n)
	}
}

func TestHostileZipsStayInTheirFolder(t *testing.T) {
	s := newScene(t)
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range []string{"../escaped.txt", "/absolute.txt", `..\escaped.txt`, "good/file.txt", "folder/", "../folder/"} {
		f, err := w.Create(name)
		s.check(err)
		if !strings.HasSuffix(name, "/") {
			_, err = io.WriteString(f, "ok")
			s.check(err)
		}
	}
	link := &zip.FileHeader{Name: "link", Modified: time.Now()}
	link.SetMode(fs.ModeSymlink | 0o777)
	f, err := w.CreateHeader(link)
	s.check(err)
	_, err = io.WriteString(f, "/etc/passwd")
	s.check(err)
	s.check(w.Close())
	files, m, err := s.unpacked("hostile.zip", b.Bytes())
	s.check(err)
	if !maps.Equal(files, map[string]string{"deep/x/good/file.txt": "ok"}) || m.skipped.n != 5 {
		t.Errorf("got %q, %d left out", files, m.skipped.n)
	}
}

func TestEntriesThatClashAreTheArchivesFault(t *testing.T) {
	s := newScene(t)
	for name, entries := range map[string][]string{
		"a file twice":                     {"a", "a"},
		"a file that is to be a folder":    {"a", "a/b"},
		"a folder that is to be a file":    {"a/b", "a"},
		"a file that is to be two folders": {"a", "a/b/c"},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, e := range entries {
			s.check(w.WriteHeader(&tar.Header{Name: e, Typeflag: tar.TypeReg}))
		}
		s.check(w.Close())
		_, _, err := s.unpacked("clash.tar", b.Bytes())
		var local *fs.PathError
		if err == nil || errors.As(err, &local) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestUnpackingStopsAtItsLimits(t *testing.T) {
	s := newScene(t)
	bomb := gzipped(s.bomb(1 << 20))
	s.write(s.in("bomb.tgz"), string(bomb))
	s.check(os.MkdirAll(s.in("x"), 0o755))
	m := &merge{limits: unpackLimits{bytes: maxUnpackedBytes - 1<<19}}
	if err := m.unpack(t.Context(), s.in("bomb.tgz"), s.in("x")); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("too many bytes: got %v", err)
	}
	m = &merge{limits: unpackLimits{files: maxUnpackedFiles}}
	if err := m.unpack(t.Context(), s.in("bomb.tgz"), s.in("x")); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("too many files: got %v", err)
	}
}

// bomb is a tar with a file of so many zeros.
func (s *scene) bomb(size int) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	s.check(w.WriteHeader(&tar.Header{Name: "zeros", Typeflag: tar.TypeReg, Size: int64(size)}))
	_, err := w.Write(make([]byte, size))
	s.check(err)
	s.check(w.Close())
	return b.Bytes()
}
