package trial_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/org/rollout-action/internal/testenv"
	"github.com/org/rollout-action/providers/sandbox"
)

// stores is where sandboxes are kept.
var stores string

func TestMain(m *testing.M) {
	sandbox.Init() // sandboxes are started by executing this program
	testenv.Parallel(4)
	os.Exit(scriptRun(m))
}

func scriptRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "rollout-trial-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	stores = dir
	code := m.Run()
	if err := testenv.RemoveStore(dir); err != nil {
		fmt.Fprintln(os.Stderr, "sandboxes have left what cannot be removed:", err)
		return 1
	}
	return code
}
