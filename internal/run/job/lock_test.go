package job

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/result"
)

func TestOneProcessHasTheLock(t *testing.T) {
	dir := t.TempDir()
	first, err := TakeLock(dir, time.Unix(1e9, 0))
	if err != nil {
		t.Fatal(err)
	}
	_, err = TakeLock(dir, time.Now())
	var busy *LockedError
	if !errors.As(err, &busy) || !strings.Contains(err.Error(), "since 2001-09-09 01:46:40 UTC") {
		t.Errorf("the second one is told %v, want since when the first has it", err)
	}
	if err := first.Release(); err != nil {
		t.Error(err)
	}
	second, err := TakeLock(dir, time.Now())
	if err != nil {
		t.Fatalf("after the first: %v", err)
	}
	// Released twice, as by a deferred call: it is not the first one's any more.
	if err := first.Release(); err != nil {
		t.Error(err)
	}
	if _, err := TakeLock(dir, time.Now()); !errors.As(err, &busy) {
		t.Errorf("the second one's lock was given away: %v", err)
	}
	if err := second.Release(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestLockFileOfADeadProcessDoesNotLock(t *testing.T) {
	for name, text := range map[string]string{"of a killed process": `{"pid":1,"host":"x"}`, "empty": "", "something else": "\x1b[31m{"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, result.LockFile), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			lock, err := TakeLock(dir, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if err := lock.Release(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestHolderTextIsSafeToPrint(t *testing.T) {
	dir := t.TempDir()
	lock, err := TakeLock(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Release() }()
	for _, text := range []string{`{"pid":7,"host":"\u001b[31mx\n::error::y"}`, "{", strings.Repeat("x", 10_000), `{"pid":-1}`} {
		if err := os.WriteFile(filepath.Join(dir, result.LockFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := TakeLock(dir, time.Now())
		if err == nil || strings.ContainsAny(err.Error(), "\x1b\n") || len(err.Error()) > 500 {
			t.Errorf("%.40q is told as %q", text, err)
		}
	}
}

func TestLockDoesNotFollowALink(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "file")
	if err := os.Symlink(outside, filepath.Join(dir, result.LockFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := TakeLock(dir, time.Now()); err == nil {
		t.Error("a link was taken for the lock")
	}
	if _, err := os.Lstat(outside); err == nil {
		t.Error("a file was made outside")
	}
}
