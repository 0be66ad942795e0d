package examples

import (
	"os"
	"sync"
	"testing"

	"github.com/org/rollout-action/internal/testenv"
)

// maxBinary is what a stripped binary may weigh, in bytes: it is downloaded in every CI run.
const maxBinary = 75_000_000

// built is the directory of the binary, which TestMain makes and removes.
var built string

// build makes the binary, once: as it is released, or with the race detector if the tests have it, so that
// the whole program is looked at while it works on real jobs.
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
	return testenv.Binary(built, testenv.Released...)
})

func TestReleasedBinarySize(t *testing.T) {
	if raceEnabled {
		t.Skip("with the race detector the binary is not the one that is released")
	}
	info, err := os.Stat(build(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", info.Size())
	if info.Size() > maxBinary {
		t.Errorf("the stripped binary has %d bytes, more than %d", info.Size(), maxBinary)
	}
}
