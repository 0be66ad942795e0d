package docker

import (
	"os"
	"testing"

	"github.com/org/rollout-action/internal/test/testenv"
)

// Most tests wait for the engine. More of them at a time would only wait longer: two processors
// start about four containers a second, however many are asked for at once.
func TestMain(m *testing.M) {
	testenv.Parallel(6)
	os.Exit(m.Run())
}
