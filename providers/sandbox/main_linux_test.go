package sandbox

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	Init()
	os.Exit(m.Run())
}

// storeDir is a folder for a store of the test's own. What sandboxes leave in it may belong to other users.
func storeDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rollout-sandbox-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := findMode().removeAll(dir); err != nil {
			t.Errorf("remove the store: %v", err)
		}
	})
	return dir
}
