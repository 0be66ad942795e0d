package trial_test

import (
	"os"
	"testing"

	"github.com/org/rollout-action/internal/test/testenv"
	"github.com/org/rollout-action/providers/sandbox"
)

// stores is the directory of sandboxes.
var stores string

func TestMain(m *testing.M) {
	sandbox.Init() // sandboxes are started by executing this program
	testenv.Parallel(4)
	os.Exit(testenv.RunWithStore(m, &stores))
}
