// Package testenv tells tests what this machine has. What is missing skips a test, with the reason, or
// fails it where ROLLOUT_TEST_REQUIRE names it (a list such as "docker"). It knows no other package.
package testenv

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/client"
)

// Image is the image that tests run in. It must be in the engine's store already: tests pull nothing.
const Image = "debian:bookworm"

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
