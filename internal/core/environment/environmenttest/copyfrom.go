package environmenttest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/core/environment"
)

// copyFromChecks check files that are copied out, without attacks; see hostileChecks.
func copyFromChecks() []check {
	return []check{
		{"the content of a directory lands in the destination", checkFetchDir},
		{"a single file lands in the destination", checkFetchFile},
		{"an empty directory is no error", checkFetchEmpty},
		{"what is not there is fs.ErrNotExist", checkFetchMissing},
		{"files that nobody may read come out all the same", checkFetchModes},
		{"a filter sees every byte and may change it", checkFetchFilter},
		{"names are made safe and the changes listed", checkFetchSafeName},
		{"a file that grows while it is read does no harm", checkFetchGrowing},
		{"files come out after a timeout", checkFetchAfterTimeout},
	}
}

// fetched is the result of a CopyFrom.
type fetched struct {
	environment.Extracted
	dst string
	err error
}

// fetch copies src out and checks that only plain files and directories arrived, all within the
// destination.
func (b *box) fetch(src string, opts environment.ExtractOptions) fetched {
	s := b.s
	s.Helper()
	around := s.TempDir()
	f := fetched{dst: filepath.Join(around, "dst")}
	canary := filepath.Join(around, "canary")
	if err := errors.Join(os.Mkdir(f.dst, 0o755), os.WriteFile(canary, []byte("untouched"), 0o600)); err != nil {
		s.Fatal(err)
	}
	s.within("CopyFrom", func() { f.Extracted, f.err = b.CopyFrom(s.ctx, src, f.dst, opts) })

	entries, err := os.ReadDir(around)
	if err != nil || len(entries) != 2 {
		s.Errorf("beside the destination: %v, %v", entries, err)
	}
	if data, err := os.ReadFile(canary); err != nil || string(data) != "untouched" {
		s.Errorf("the file beside the destination: %q, %v", data, err)
	}
	f.check(s)
	return f
}

// check walks the destination: it must contain no links and no devices, and the counts must be
// right.
func (f fetched) check(s *scene) {
	s.Helper()
	var bytes int64
	var plain, all int
	err := filepath.WalkDir(f.dst, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == f.dst {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		all++
		switch {
		case info.Mode().IsRegular():
			plain++
			bytes += info.Size()
			if n := hardLinks(info); n != 1 {
				s.Errorf("%s has %d hard links", path, n)
			}
		case !info.IsDir():
			s.Errorf("%s is a %v", path, info.Mode().Type())
		}
		return nil
	})
	if err != nil {
		s.Errorf("walking what was copied: %v", err)
	}
	if f.Files < plain || f.Files > all {
		s.Errorf("Files = %d; %d files and %d directories were written", f.Files, plain, all-plain)
	}
	if len(f.Omitted) > 100 || len(f.Renamed) > 100 {
		s.Errorf("lists are not cut at 100: %d omitted, %d renamed", len(f.Omitted), len(f.Renamed))
	}
}

// text returns the content of a file that was copied out.
func (f fetched) text(s *scene, name string) string {
	s.Helper()
	data, err := os.ReadFile(filepath.Join(f.dst, filepath.FromSlash(name)))
	if err != nil {
		s.Errorf("copied out: %v", err)
	}
	return string(data)
}

// tree lists the destination; directories end with a slash.
func (f fetched) tree(s *scene) string {
	s.Helper()
	var names []string
	err := fs.WalkDir(os.DirFS(f.dst), ".", func(path string, d fs.DirEntry, err error) error {
		if d.IsDir() {
			path += "/"
		}
		names = append(names, path)
		return err
	})
	if err != nil {
		s.Errorf("walking what was copied: %v", err)
	}
	return strings.Join(names[1:], " ")
}

func (f fetched) ok(s *scene) fetched {
	s.Helper()
	if f.err != nil {
		s.Fatalf("CopyFrom: %v", f.err)
	}
	return f
}

func checkFetchDir(s *scene) {
	env := s.create()
	env.run("mkdir -p /logs/agent/sub/empty; cd /logs/agent; echo one > a.txt; echo two > sub/b.txt; echo three > .hidden")
	for _, src := range []string{"/logs/agent", "/logs/agent/"} {
		f := env.fetch(src, environment.ExtractOptions{}).ok(s)
		s.equal("tree", f.tree(s), ".hidden a.txt sub/ sub/b.txt sub/empty/")
		s.equal("contents", f.text(s, "a.txt")+f.text(s, "sub/b.txt")+f.text(s, ".hidden"), "one\ntwo\nthree\n")
		if f.Bytes != 14 {
			s.Errorf("Bytes = %d, want 14", f.Bytes)
		}
		if len(f.Omitted)+len(f.Renamed) > 0 {
			s.Errorf("omitted %v, renamed %v, want nothing", f.Omitted, f.Renamed)
		}
	}
	s.equal("one more level", env.fetch("/logs", environment.ExtractOptions{}).ok(s).text(s, "agent/sub/b.txt"), "two\n")
}

func checkFetchFile(s *scene) {
	env := s.create()
	env.run("mkdir -p '/logs/a b'; echo 1 > '/logs/a b/reward.txt'; echo 2 > '/logs/a b/other'")
	f := env.fetch("/logs/a b/reward.txt", environment.ExtractOptions{}).ok(s)
	s.equal("tree", f.tree(s), "reward.txt")
	s.equal("content", f.text(s, "reward.txt"), "1\n")
}

func checkFetchEmpty(s *scene) {
	env := s.create()
	env.run("mkdir -p /logs/empty")
	s.equal("tree", env.fetch("/logs/empty", environment.ExtractOptions{}).ok(s).tree(s), "")
}

func checkFetchMissing(s *scene) {
	env := s.create()
	env.run("echo file > /file")
	for _, src := range []string{"/no/such/thing", "/etc/nothing", "/file/below"} {
		if f := env.fetch(src, environment.ExtractOptions{}); !errors.Is(f.err, fs.ErrNotExist) {
			s.Errorf("%s: error %v, want fs.ErrNotExist", src, f.err)
		}
	}
}

// The host must be able to read, and later delete, the copied files.
func checkFetchModes(s *scene) {
	env := s.create()
	env.run(`mkdir -p /logs/d/e; echo a > /logs/none; echo b > /logs/d/e/deep; echo c > /logs/setuid
		chmod 000 /logs/none; chmod 6755 /logs/setuid; chmod 000 /logs/d/e; chmod 500 /logs/d`)
	f := env.fetch("/logs", environment.ExtractOptions{}).ok(s)
	s.equal("contents", f.text(s, "none")+f.text(s, "d/e/deep")+f.text(s, "setuid"), "a\nb\nc\n")
	info, err := os.Stat(filepath.Join(f.dst, "setuid"))
	if err != nil || info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
		s.Errorf("mode of a setuid file: %v, %v", info.Mode(), err)
	}
	if err := os.RemoveAll(f.dst); err != nil {
		s.Errorf("removing what was copied: %v", err)
	}
}

// upper is a filter that writes nothing until it is closed.
type upper struct {
	w    io.Writer
	held []byte
}

func (u *upper) Write(p []byte) (int, error) {
	u.held = append(u.held, p...)
	return len(p), nil
}

func (u *upper) Close() error {
	_, err := io.WriteString(u.w, strings.ToUpper(string(u.held)))
	return err
}

func checkFetchFilter(s *scene) {
	env := s.create()
	env.run("mkdir -p /logs/d; echo one > /logs/a; echo two > /logs/d/b; : > /logs/empty")
	f := env.fetch("/logs", environment.ExtractOptions{
		Filter: func(w io.Writer) io.WriteCloser { return &upper{w: w} },
	}).ok(s)
	s.equal("contents", f.text(s, "a")+f.text(s, "d/b")+f.text(s, "empty"), "ONE\nTWO\n")
}

func checkFetchSafeName(s *scene) {
	env := s.create()
	env.run(`mkdir -p '/logs/a:b'; cd /logs; echo 1 > 'a:b/x?y'; echo 2 > .hidden; echo 3 > $'new\nline'; echo 4 > plain`)
	safe := func(name string) string {
		return strings.NewReplacer(":", "_", "?", "_", "\n", "_").Replace(strings.Replace(name, ".", "_", 1))
	}
	f := env.fetch("/logs", environment.ExtractOptions{SafeName: safe}).ok(s)
	s.equal("tree", f.tree(s), "_hidden a_b/ a_b/x_y new_line plain")
	s.equal("contents", f.text(s, "a_b/x_y")+f.text(s, "_hidden")+f.text(s, "new_line")+f.text(s, "plain"), "1\n2\n3\n4\n")
	for _, want := range []string{".hidden", "new\nline", "a:b/x?y"} {
		if !slices.ContainsFunc(f.Renamed, func(r environment.Rename) bool { return r.From == want }) {
			s.Errorf("Renamed does not list %q: %q", want, f.Renamed)
		}
	}
}

// A server that an agent left running writes its log while it is copied out.
func checkFetchGrowing(s *scene) {
	env := s.create()
	env.run(`mkdir /logs2; echo first > /logs2/a; echo last > /logs2/z; head -c 3000000 /dev/zero > /logs2/m
		(while [ ! -e /stop ]; do echo a line that makes it longer; done >> /logs2/m) 2>/dev/null &`)
	for i := range 3 {
		f := env.fetch("/logs2", environment.ExtractOptions{}).ok(s)
		s.equal(fmt.Sprintf("the others, time %d", i+1), f.text(s, "a")+f.text(s, "z"), "first\nlast\n")
		if n := len(f.text(s, "m")); n < 3000000 {
			s.Errorf("the growing file has %d bytes, want at least what it had before", n)
		}
	}
	env.run("touch /stop")
}

func checkFetchAfterTimeout(s *scene) {
	env := s.create()
	env.run("mkdir -p /logs")
	cancelEnds(s, env, "echo so far > /logs/out; echo ready; sleep 3600")
	s.equal("content", env.fetch("/logs", environment.ExtractOptions{}).ok(s).text(s, "out"), "so far\n")
}
