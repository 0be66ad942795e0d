package files

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
	"github.com/org/rollout-action/internal/core/environment/environmenttest/suite"
)

// copyFromChecks check files that are copied out, without attacks; see hostileChecks.
func copyFromChecks() []suite.Check {
	return []suite.Check{
		{Name: "the content of a directory lands in the destination", Run: checkFetchDir},
		{Name: "a single file lands in the destination", Run: checkFetchFile},
		{Name: "an empty directory is no error", Run: checkFetchEmpty},
		{Name: "a missing path is fs.ErrNotExist", Run: checkFetchMissing},
		{Name: "files without read permission are copied out", Run: checkFetchModes},
		{Name: "a filter sees every byte and may change it", Run: checkFetchFilter},
		{Name: "names are made safe and the changes listed", Run: checkFetchSafeName},
		{Name: "a file that grows while it is read does no harm", Run: checkFetchGrowing},
		{Name: "files come out after a timeout", Run: checkFetchAfterTimeout},
	}
}

func checkFetchDir(s *suite.Scene) {
	env := s.Create()
	env.Run("mkdir -p /logs/agent/sub/empty; cd /logs/agent; echo one > a.txt; echo two > sub/b.txt; echo three > .hidden")
	for _, src := range []string{"/logs/agent", "/logs/agent/"} {
		f := env.Fetch(src, environment.ExtractOptions{}).OK(s)
		s.Equal("tree", f.Tree(s), ".hidden a.txt sub/ sub/b.txt sub/empty/")
		s.Equal("contents", f.Text(s, "a.txt")+f.Text(s, "sub/b.txt")+f.Text(s, ".hidden"), "one\ntwo\nthree\n")
		if f.Bytes != 14 {
			s.Errorf("Bytes = %d, want 14", f.Bytes)
		}
		if len(f.Omitted)+len(f.Renamed) > 0 {
			s.Errorf("omitted %v, renamed %v, want nothing", f.Omitted, f.Renamed)
		}
	}
	s.Equal("one more level", env.Fetch("/logs", environment.ExtractOptions{}).OK(s).Text(s, "agent/sub/b.txt"), "two\n")
}

func checkFetchFile(s *suite.Scene) {
	env := s.Create()
	env.Run("mkdir -p '/logs/a b'; echo 1 > '/logs/a b/reward.txt'; echo 2 > '/logs/a b/other'")
	f := env.Fetch("/logs/a b/reward.txt", environment.ExtractOptions{}).OK(s)
	s.Equal("tree", f.Tree(s), "reward.txt")
	s.Equal("content", f.Text(s, "reward.txt"), "1\n")
}

func checkFetchEmpty(s *suite.Scene) {
	env := s.Create()
	env.Run("mkdir -p /logs/empty")
	s.Equal("tree", env.Fetch("/logs/empty", environment.ExtractOptions{}).OK(s).Tree(s), "")
}

func checkFetchMissing(s *suite.Scene) {
	env := s.Create()
	env.Run("echo file > /file")
	for _, src := range []string{"/no/such/thing", "/etc/nothing", "/file/below"} {
		if f := env.Fetch(src, environment.ExtractOptions{}); !errors.Is(f.Err, fs.ErrNotExist) {
			s.Errorf("%s: error %v, want fs.ErrNotExist", src, f.Err)
		}
	}
}

// The host must be able to read, and later delete, the copied files.
func checkFetchModes(s *suite.Scene) {
	env := s.Create()
	env.Run(`mkdir -p /logs/d/e; echo a > /logs/none; echo b > /logs/d/e/deep; echo c > /logs/setuid
		chmod 000 /logs/none; chmod 6755 /logs/setuid; chmod 000 /logs/d/e; chmod 500 /logs/d`)
	f := env.Fetch("/logs", environment.ExtractOptions{}).OK(s)
	s.Equal("contents", f.Text(s, "none")+f.Text(s, "d/e/deep")+f.Text(s, "setuid"), "a\nb\nc\n")
	info, err := os.Stat(filepath.Join(f.Dst, "setuid"))
	if err != nil || info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
		s.Errorf("mode of a setuid file: %v, %v", info.Mode(), err)
	}
	if err := os.RemoveAll(f.Dst); err != nil {
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

func checkFetchFilter(s *suite.Scene) {
	env := s.Create()
	env.Run("mkdir -p /logs/d; echo one > /logs/a; echo two > /logs/d/b; : > /logs/empty")
	f := env.Fetch("/logs", environment.ExtractOptions{
		Filter: func(w io.Writer) io.WriteCloser { return &upper{w: w} },
	}).OK(s)
	s.Equal("contents", f.Text(s, "a")+f.Text(s, "d/b")+f.Text(s, "empty"), "ONE\nTWO\n")
}

func checkFetchSafeName(s *suite.Scene) {
	env := s.Create()
	env.Run(`mkdir -p '/logs/a:b'; cd /logs; echo 1 > 'a:b/x?y'; echo 2 > .hidden; echo 3 > $'new\nline'; echo 4 > plain`)
	safe := func(name string) string {
		return strings.NewReplacer(":", "_", "?", "_", "\n", "_").Replace(strings.Replace(name, ".", "_", 1))
	}
	f := env.Fetch("/logs", environment.ExtractOptions{SafeName: safe}).OK(s)
	s.Equal("tree", f.Tree(s), "_hidden a_b/ a_b/x_y new_line plain")
	s.Equal("contents", f.Text(s, "a_b/x_y")+f.Text(s, "_hidden")+f.Text(s, "new_line")+f.Text(s, "plain"), "1\n2\n3\n4\n")
	for _, want := range []string{".hidden", "new\nline", "a:b/x?y"} {
		if !slices.ContainsFunc(f.Renamed, func(r environment.Rename) bool { return r.From == want }) {
			s.Errorf("Renamed does not list %q: %q", want, f.Renamed)
		}
	}
}

// A server that an agent left running writes its log while it is copied out.
func checkFetchGrowing(s *suite.Scene) {
	env := s.Create()
	env.Run(`mkdir /logs2; echo first > /logs2/a; echo last > /logs2/z; head -c 3000000 /dev/zero > /logs2/m
		(while [ ! -e /stop ]; do echo a line that makes it longer; done >> /logs2/m) 2>/dev/null &`)
	for i := range 3 {
		f := env.Fetch("/logs2", environment.ExtractOptions{}).OK(s)
		s.Equal(fmt.Sprintf("the others, time %d", i+1), f.Text(s, "a")+f.Text(s, "z"), "first\nlast\n")
		if n := len(f.Text(s, "m")); n < 3000000 {
			s.Errorf("the growing file has %d bytes, want at least what it had before", n)
		}
	}
	env.Run("touch /stop")
}

func checkFetchAfterTimeout(s *suite.Scene) {
	env := s.Create()
	env.Run("mkdir -p /logs")
	suite.CancelEnds(s, env, "echo so far > /logs/out; echo ready; sleep 3600")
	s.Equal("content", env.Fetch("/logs", environment.ExtractOptions{}).OK(s).Text(s, "out"), "so far\n")
}
