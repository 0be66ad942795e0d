package judging

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
)

func TestDescribeChange(t *testing.T) {
	text := func(s string) *environment.FileState {
		return &environment.FileState{Mode: 0o644, Size: int64(len(s)), Text: []byte(s)}
	}
	with := func(s *environment.FileState, mode fs.FileMode) *environment.FileState {
		s.Mode = mode
		return s
	}
	for name, test := range map[string]struct {
		change environment.Change
		want   string
	}{
		"changed": {environment.Change{Path: "/app/a.txt", Before: text("one\ntwo\n"), After: text("one\nthree\n")},
			"diff /app/a.txt /app/a.txt\n--- /app/a.txt\n+++ /app/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n"},
		"added":          {environment.Change{Path: "/app/a", After: text("new\n")}, "diff /dev/null /app/a\n--- /dev/null\n+++ /app/a\n@@ -0,0 +1,1 @@\n+new\n"},
		"deleted":        {environment.Change{Path: "/app/a", Before: text("old\n")}, "diff /app/a /dev/null\n--- /app/a\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-old\n"},
		"added empty":    {environment.Change{Path: "/app/a", After: text("")}, "added: /app/a (an empty file)\n"},
		"binary":         {environment.Change{Path: "/app/a", Before: text("a\x00"), After: text("ab\x00")}, "changed: /app/a (no text, 3 bytes; it was no text, 2 bytes)\n"},
		"large":          {environment.Change{Path: "/app/a", Before: text("a"), After: &environment.FileState{Mode: 0o644, Size: 1 << 20}}, "changed: /app/a (1048576 bytes; it was 1 bytes)\n"},
		"a mode":         {environment.Change{Path: "/app/a", Before: text("a\n"), After: with(text("a\n"), 0o755)}, "mode: /app/a -rwxr-xr-x, it was -rw-r--r--\n"},
		"a link":         {environment.Change{Path: "/app/a", Before: text("a\n"), After: &environment.FileState{Mode: fs.ModeSymlink | 0o777, Link: "/b\n"}}, "changed: /app/a (a link to \"/b\\n\"; it was 2 bytes)\n"},
		"a directory":    {environment.Change{Path: "/app/d", Before: &environment.FileState{Mode: fs.ModeDir | 0o755}}, "deleted: /app/d (it was a directory)\n"},
		"emptied":        {environment.Change{Path: "/app/d", Before: &environment.FileState{Mode: fs.ModeDir}, After: &environment.FileState{Mode: fs.ModeDir}, Emptied: true}, "replaced: /app/d was removed and created again, and its earlier content is gone\n"},
		"a hostile name": {environment.Change{Path: "/app/a\n+++ /etc/passwd\x1b[2J", After: text("")}, "added: \"/app/a\\n+++ /etc/passwd\\x1b[2J\" (an empty file)\n"},
		"a pipe":         {environment.Change{Path: "/app/p", After: &environment.FileState{Mode: fs.ModeNamedPipe | 0o644}}, "added: /app/p (a special file)\n"},
		"only a secret":  {environment.Change{Path: "/app/a", Before: text("***\n"), After: text("***\n")}, "changed: /app/a (4 bytes)\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := describeChange(test.change); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
	huge := describeChange(environment.Change{Path: "/app/a", After: text(strings.Repeat("a line of text\n", 4000))})
	if len(huge) > maxOneChange+100 {
		t.Errorf("the difference of a huge file has %d bytes", len(huge))
	}
}
