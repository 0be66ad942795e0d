package testenv

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Long skips the test unless ROLLOUT_TEST_LONG is 1, as CI sets it. what says what takes long; .github/check lists it
// where it is left out.
func Long(t testing.TB, what string) {
	t.Helper()
	if !LongRun() {
		t.Skipf("takes long: %s; ROLLOUT_TEST_LONG=1 runs it", what)
	}
}

// LongRun reports whether tests that take long run.
func LongRun() bool { return os.Getenv("ROLLOUT_TEST_LONG") == "1" }

// NeedReleased skips a test of the binary as it is released where it would have to be compiled for that test alone: ROLLOUT_TEST_BINARY
// names no such binary, and no tests that take long run.
func NeedReleased(t testing.TB) {
	t.Helper()
	if os.Getenv("ROLLOUT_TEST_BINARY") == "" {
		Long(t, "everything is compiled once more, as it is released")
	}
}

// Times returns how often a test repeats what depends on chance: few times for a change, or full times if
// ROLLOUT_TEST_FULL is 1, as it is in the nightly run.
func Times(few, full int) int {
	if os.Getenv("ROLLOUT_TEST_FULL") == "1" {
		return full
	}
	return few
}

// Released is how go build makes the binary that is released, but for its version. The program of pods that it embeds is built first.
var Released = []string{"-trimpath", "-tags", "rollout_release", "-ldflags", "-s -w"}

// Binary returns the program rollout of this checkout for tests of the real thing. If ROLLOUT_TEST_BINARY names one it is
// that: CI builds it once, as it is released, for all tests and for users who have no build cache. Otherwise it is built
// in dir with the flags of go build; without the C compiler if they are those of Released.
func Binary(dir string, flags ...string) (string, error) {
	if path := os.Getenv("ROLLOUT_TEST_BINARY"); path != "" && !slices.Contains(flags, "-race") {
		return path, nil
	}
	if slices.Equal(flags, Released) {
		if err := buildPodProgram(); err != nil {
			return "", err
		}
	}
	path := filepath.Join(dir, "rollout")
	cmd := exec.CommandContext(context.Background(), "go", slices.Concat([]string{"build", "-o", path}, flags, []string{"github.com/org/rollout-action/cmd/rollout"})...)
	if slices.Equal(flags, Released) {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return path, nil
}

// buildPodProgram builds the program of pods for this machine's architecture, which binaries that are built as released embed.
func buildPodProgram() error {
	top, err := exec.CommandContext(context.Background(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/org/rollout-action").Output()
	if err != nil {
		return fmt.Errorf("look for the checkout: %w", err)
	}
	script := filepath.Join(strings.TrimSpace(string(top)), ".ci", "build-podprogram")
	if out, err := exec.CommandContext(context.Background(), script, runtime.GOARCH).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", script, err, out)
	}
	return nil
}

// Parallel has at least n parallel tests run at a time, unless -parallel says otherwise. TestMain calls it in packages whose
// tests mostly wait, for an engine or for time to pass: go test's own number is that of the processors.
func Parallel(n int) {
	parallel := flag.Lookup("test.parallel")
	if before, err := strconv.Atoi(parallel.Value.String()); err == nil && before < n {
		_ = parallel.Value.Set(strconv.Itoa(n)) // flags are read later, and have the last word
	}
}
