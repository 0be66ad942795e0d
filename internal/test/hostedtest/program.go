package hostedtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// ProgramFile names, if it is set, the file with the program that Program returns.
const ProgramFile = "ROLLOUT_TEST_GUEST"

// Program returns the program that sandboxes of services run, which it builds once.
var Program = sync.OnceValues(func() ([]byte, error) {
	if file := os.Getenv(ProgramFile); file != "" {
		return os.ReadFile(file)
	}
	dir, err := os.MkdirTemp("", "rollout-guest-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "program")
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", file, "github.com/org/rollout-action/providers/kubernetes/internal/podprogram")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the program: %w: %s", err, out)
	}
	return os.ReadFile(file)
})
