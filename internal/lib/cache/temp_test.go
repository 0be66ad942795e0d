package cache

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gofrs/flock"
)

// A process that is killed cannot remove its temporary directory, so the next one does.
func TestTemporaryDirectoriesOfKilledProcessesAreRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	alive, remove, err := Temp("rollout-x-")
	if err != nil {
		t.Fatal(err)
	}
	there := func(name string) string { return filepath.Join(os.TempDir(), name) }
	young, old, killed, other := there("rollout-x-young"), there("rollout-x-old"), there("rollout-x-killed"), there("another-x-1")
	for _, dir := range []string{young, old, killed, other} {
		if err := os.MkdirAll(filepath.Join(dir, "files"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	before := time.Now().Add(-2 * tempAge)
	lock := flock.New(filepath.Join(killed, tempLock)) // as it is after its process
	if _, err := lock.TryLock(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(lock.Close(), os.Chtimes(old, before, before), os.Chtimes(other, before, before)); err != nil {
		t.Fatal(err)
	}
	next, removeNext, err := Temp("rollout-x-")
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{alive: true, next: true, young: true, other: true, old: false, killed: false} {
		if got := exists(dir); got != want {
			t.Errorf("%s is there: %t, want %t", dir, got, want)
		}
	}
	if err := errors.Join(remove(), removeNext()); err != nil || exists(alive) || exists(next) {
		t.Errorf("they are still there: %v", err)
	}
}
