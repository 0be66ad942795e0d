package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// maxBinary is what a stripped binary may weigh, in bytes: it is downloaded in every CI run.
const maxBinary = 45_000_000

// build makes the binary: as it is released, or with the race detector if the tests have it, so that
// the whole program is looked at while it works on real jobs.
func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "rollout")
	args := []string{"build", "-trimpath", "-ldflags", "-s -w", "-o", binary}
	env := append(os.Environ(), "CGO_ENABLED=0")
	if raceEnabled {
		args, env = []string{"build", "-race", "-o", binary}, os.Environ()
	}
	cmd := exec.Command("go", append(args, "github.com/org/rollout-action/cmd/rollout")...)
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return binary
}

func TestTheReleasedBinaryIsSmall(t *testing.T) {
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
