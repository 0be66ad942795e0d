package merge

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/result"
)

func TestShardsAreFoundWhereverArtifactsPutThem(t *testing.T) {
	s := newScene(t)
	s.RunShard(s.In("whole"), 0, 0, nil)
	s.Shards(6)
	shard := func(i string) string { return s.In("shards", i) }
	move := func(i string, to ...string) {
		s.Check(os.MkdirAll(filepath.Dir(s.In(to...)), 0o755))
		s.Check(os.Rename(shard(i), s.In(to...)))
	}
	// A directory, one three levels down, a tar, a compressed one, a zip, and a zip with a tar in
	// it.
	move("1", "down", "rollout-shard-1-of-6")
	move("2", "down", "rollout-shard-2-of-6", "jobs", "nightly.shard-2-of-6")
	s.Write(s.In("down", "rollout-shard-3-of-6", "job.tar"), string(s.tarred(shard("3"), "./nightly.shard-3-of-6/")))
	s.Write(s.In("down", "4.tgz"), string(gzipped(s.tarred(shard("4"), ""))))
	s.Write(s.In("down", "5.zip"), string(s.zipped(s.Content(shard("5")))))
	s.Write(s.In("down", "6.ZIP"), string(s.zipped(map[string]string{"jobs/job.tar.gz": string(gzipped(s.tarred(shard("6"), "jobs/x/")))})))
	s.Check(os.RemoveAll(s.In("shards")))
	merged := s.mustMerge("down")
	if len(merged.Incomplete)+len(merged.Notes) > 0 || merged.Merged != 6 {
		t.Errorf("incomplete %q, notes %q", merged.Incomplete, merged.Notes)
	}
	if s.Read(s.In("jobs", "nightly", result.ResultFile)) != s.Read(s.In("whole", result.ResultFile)) {
		t.Error("the result differs from that of the whole run")
	}
	s.nothingLeft()

	// An archive can be given itself. Its name in messages is the given one.
	merged = s.mustMerge("down/4.tgz")
	if merged.Merged != 1 || !strings.Contains(s.Read(s.In("jobs", "nightly", result.MergeFile)), `"folder": "down/4.tgz"`) {
		t.Errorf("%d shards were merged", merged.Merged)
	}
}

func TestBrokenArchivesAreReported(t *testing.T) {
	s := newScene(t)
	s.Shards(3)
	packed := gzipped(s.tarred(s.In("shards", "2"), ""))
	s.Write(s.In("shards", "2.tgz"), string(packed[:len(packed)/2]))
	s.Write(s.In("shards", "3.zip"), "no zip")
	s.Check(os.RemoveAll(s.In("shards", "2")))
	s.Check(os.RemoveAll(s.In("shards", "3")))
	merged := s.mustMerge()
	s.says(merged.Notes, "shards/2.tgz cannot be unpacked")
	s.says(merged.Notes, "shards/3.zip cannot be unpacked")
	s.says(merged.Incomplete, "shard 2/3 is missing")
	s.says(merged.Incomplete, "shard 3/3 is missing")
}

// hostile returns entries that no run writes.
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
		{Name: "../directory/", Typeflag: tar.TypeDir},
	}
}

// unpacked unpacks an archive into the directory x, and returns the files in the scene's directory
// afterwards.
func (s *scene) unpacked(name string, data []byte) (map[string]string, *merge, error) {
	s.Helper()
	s.Write(s.In(name), string(data))
	s.Check(os.MkdirAll(s.In("deep", "x"), 0o755))
	m := &merge{}
	err := m.unpack(s.Context(), s.In(name), s.In("deep", "x"))
	files := s.Content(s.Dir)
	delete(files, name)
	s.Check(os.RemoveAll(s.In("deep")))
	return files, m, err
}

func TestHostileTarsStayInTheirDirectory(t *testing.T) {
	s := newScene(t)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	s.Check(w.WriteHeader(&tar.Header{Name: "./", Typeflag: tar.TypeDir}))
	s.Check(w.WriteHeader(&tar.Header{Name: "good/", Typeflag: tar.TypeDir}))
	s.Check(w.WriteHeader(&tar.Header{Name: "good/file.txt", Typeflag: tar.TypeReg, Mode: 0o6777, Size: 2}))
	_, err := io.WriteString(w, "ok")
	s.Check(err)
	for _, h := range hostile() {
		s.Check(w.WriteHeader(&h))
	}
	s.Check(w.Close())
	files, m, err := s.unpacked("hostile.tar", b.Bytes())
	s.Check(err)
	// link/passwd is an ordinary file, as there is no link.
	want := map[string]string{"deep/x/good/file.txt": "ok", "deep/x/link/passwd": ""}
	if !maps.Equal(files, want) {
		t.Errorf("got %q", files)
	}
	if n := len(hostile()) - 1; m.skipped.n != n {
		t.Errorf("%d entries were left out, want %d", m.skipped.n, n)
	}
}

func TestHostileZipsStayInTheirDirectory(t *testing.T) {
	s := newScene(t)
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range []string{"../escaped.txt", "/absolute.txt", `..\escaped.txt`, "good/file.txt", "directory/", "../directory/"} {
		f, err := w.Create(name)
		s.Check(err)
		if !strings.HasSuffix(name, "/") {
			_, err = io.WriteString(f, "ok")
			s.Check(err)
		}
	}
	link := &zip.FileHeader{Name: "link", Modified: time.Now()}
	link.SetMode(fs.ModeSymlink | 0o777)
	f, err := w.CreateHeader(link)
	s.Check(err)
	_, err = io.WriteString(f, "/etc/passwd")
	s.Check(err)
	s.Check(w.Close())
	files, m, err := s.unpacked("hostile.zip", b.Bytes())
	s.Check(err)
	if !maps.Equal(files, map[string]string{"deep/x/good/file.txt": "ok"}) || m.skipped.n != 5 {
		t.Errorf("got %q, %d left out", files, m.skipped.n)
	}
}

func TestClashingEntriesAreTheArchivesFault(t *testing.T) {
	s := newScene(t)
	for name, entries := range map[string][]string{
		"a file twice":                         {"a", "a"},
		"a file that is to be a directory":     {"a", "a/b"},
		"a directory that is to be a file":     {"a/b", "a"},
		"a file that is to be two directories": {"a", "a/b/c"},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, e := range entries {
			s.Check(w.WriteHeader(&tar.Header{Name: e, Typeflag: tar.TypeReg}))
		}
		s.Check(w.Close())
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
	s.Write(s.In("bomb.tgz"), string(bomb))
	s.Check(os.MkdirAll(s.In("x"), 0o755))
	m := &merge{limits: unpackLimits{bytes: maxUnpackedBytes - 1<<19}}
	if err := m.unpack(t.Context(), s.In("bomb.tgz"), s.In("x")); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("too many bytes: got %v", err)
	}
	m = &merge{limits: unpackLimits{files: maxUnpackedFiles}}
	if err := m.unpack(t.Context(), s.In("bomb.tgz"), s.In("x")); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("too many files: got %v", err)
	}
}

// bomb returns a tar with a file of size zeros.
func (s *scene) bomb(size int) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	s.Check(w.WriteHeader(&tar.Header{Name: "zeros", Typeflag: tar.TypeReg, Size: int64(size)}))
	_, err := w.Write(make([]byte, size))
	s.Check(err)
	s.Check(w.Close())
	return b.Bytes()
}
