// Package testenv tells tests what this machine has. What is missing skips a test, with the reason, or
// fails it where ROLLOUT_TEST_REQUIRE names it (a list such as "docker,sandbox"). It knows no provider, only how
// they say that they cannot be used.
package testenv

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/client"

	"github.com/org/rollout-action/internal/environment"
)

// Image is the image that tests run in. It must be in the engine's store already: tests pull nothing.
const Image = "debian:bookworm"

// ImageArchive is a file with Image in it, as docker save makes it, for tests that cannot reach an engine; "" if
// there is none. ROLLOUT_TEST_IMAGE_ARCHIVE names it.
func ImageArchive() string { return os.Getenv("ROLLOUT_TEST_IMAGE_ARCHIVE") }

// NeedDocker skips or fails the test where no Docker engine with Image answers.
func NeedDocker(t testing.TB) {
	t.Helper()
	if err := docker(); err != nil {
		Lacks(t, "docker", "a Docker engine with the image "+Image+": "+err.Error())
	}
}

// NeedRoot skips or fails the test where it does not run as root. Those who require Docker run the
// tests as root.
func NeedRoot(t testing.TB, why string) {
	t.Helper()
	if os.Geteuid() != 0 {
		Lacks(t, "docker", "root, "+why)
	}
}

// Check fails the test if err, of opening the provider of that name, is not nil. If it says that the provider
// cannot be used here (environment.KindUnavailable), the test is skipped unless the provider is required.
func Check(t testing.TB, provider string, err error) {
	t.Helper()
	if environment.KindOf(err) == environment.KindUnavailable {
		Lacks(t, provider, "what the provider "+provider+" needs: "+err.Error())
	}
	if err != nil {
		t.Fatalf("open the provider %s: %v", provider, err)
	}
}

// RemoveStore removes a directory in which environments of this user kept their changes. The kernel leaves directories
// there that not even their owner may enter.
func RemoveStore(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			_ = os.Chmod(path, 0o700) //nolint:gosec // a directory has to be entered, and goes in a moment
		}
		return nil // what stays is what RemoveAll fails with
	})
	return os.RemoveAll(dir)
}

// Lacks skips the test because of what this machine does not have, or fails it where name is required.
func Lacks(t testing.TB, name, what string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("ROLLOUT_TEST_REQUIRE"), ","), name) {
		t.Fatalf("ROLLOUT_TEST_REQUIRE names %s, but this machine lacks %s", name, what)
	}
	t.Skipf("needs %s", what)
}

var docker = sync.OnceValue(func() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	engine, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return err
	}
	defer engine.Close()
	_, err = engine.ImageInspect(ctx, Image)
	return err
})
