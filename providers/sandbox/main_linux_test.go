package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/org/rollout-action/internal/testenv"
)

// shared is a directory with what takes long to make and to remove, bases, for the stores of all tests.
var shared string

func TestMain(m *testing.M) {
	Init()
	testenv.Parallel(6)
	os.Exit(runAll(m))
}

func runAll(m *testing.M) int {
	dir, err := os.MkdirTemp("", "rollout-sandbox-bases-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	shared = dir
	defer func() { _ = findMode(networkOwn).removeAll(dir) }()
	return m.Run()
}

// storeDir is a directory for a store that has nothing but its bases in common with others.
func storeDir(t testing.TB) string {
	t.Helper()
	dir := ownStoreDir(t)
	store := filepath.Join(dir, string(findMode(networkOwn)))
	for _, name := range []string{"bases", "locks"} {
		to := filepath.Join(shared, name)
		if err := errors.Join(os.MkdirAll(to, 0o700), os.MkdirAll(store, 0o700), os.Symlink(to, filepath.Join(store, name))); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// ownStoreDir is a directory for a store of the test's own. What sandboxes leave in it may belong to other users.
func ownStoreDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rollout-sandbox-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := findMode(networkOwn).removeAll(dir); err != nil {
			t.Errorf("remove the store: %v", err)
		}
	})
	return dir
}
