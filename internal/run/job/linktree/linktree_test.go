package linktree

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/lib/nofollow"
)

func TestFilesAreCopiedIfTheyCannotBeLinked(t *testing.T) {
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	top := t.TempDir()
	from, to := filepath.Join(top, "from"), filepath.Join(top, "to")
	check(os.MkdirAll(filepath.Join(from, "logs"), 0o755))
	check(os.WriteFile(filepath.Join(from, "logs", "a.txt"), []byte("text"), 0o644))
	check(os.Mkdir(to, 0o755))
	for copies, links := range map[bool]uint64{false: 2, true: 1} {
		source, err := nofollow.OpenDir(from)
		check(err)
		target, err := nofollow.OpenDir(to)
		check(err)
		l := Linker{copies: copies}
		check(l.Link(source, target, fmt.Sprint(copies)))
		check(errors.Join(source.Close(), target.Close()))
		path := filepath.Join(to, fmt.Sprint(copies), "logs", "a.txt")
		if text, err := os.ReadFile(path); err != nil || string(text) != "text" {
			t.Errorf("copies %v: the text is %q, %v", copies, text, err)
		}
		var stat unix.Stat_t
		check(unix.Stat(path, &stat))
		if uint64(stat.Nlink) != links { //nolint:unconvert // its type differs between systems
			t.Errorf("copies %v: the file has %d names", copies, stat.Nlink)
		}
		check(os.RemoveAll(filepath.Join(to, fmt.Sprint(copies))))
	}
}
