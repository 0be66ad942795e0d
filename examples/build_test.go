package examples

import (
	"os"
	"sync"
	"testing"

	"github.com/org/rollout-action/internal/test/testenv"
)

// maxBinary is the size limit of a stripped binary, in bytes: it is downloaded in every CI run.
const maxBinary = 82_000_000

// built is the directory of the binary, which TestMain creates and removes.
var built string

// build builds the binary once: with the flags of the tests, for which all its packages are
// compiled already, and with the race detector if the tests have it. CI names the released one.
func build(t *testing.T) string {
	t.Helper()
	binary, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

var buildOnce = sync.OnceValues(func() (string, error) {
	if raceEnabled {
		return testenv.Binary(built, "-race")
	}
	return testenv.Binary(built)
})

// released returns the binary as it is released, for which everything is compiled once more unless
// ROLLOUT_TEST_BINARY names it.
func released(t *testing.T) string {
	t.Helper()
	binary, err := testenv.Binary(t.TempDir(), testenv.Released...)
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

func TestReleasedBinarySize(t *testing.T) {
	if raceEnabled {
		t.Skip("with the race detector the binary is not the one that is released")
	}
	testenv.NeedReleased(t)
	info, err := os.Stat(released(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", info.Size())
	if info.Size() > maxBinary {
		t.Errorf("the stripped binary has %d bytes, more than %d", info.Size(), maxBinary)
	}
}
