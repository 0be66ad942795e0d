package sandbox

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
)

// TestCommandCancelledAtOnceEnds: the request to end it must not come before the one to start it.
func TestCommandCancelledAtOnceEnds(t *testing.T) {
	p := newProvider(t, map[string]any{"base": baseHost, "dir": storeDir(t)})
	env, err := p.CreateEnvironment(t.Context(), environment.CreateOptions{Image: testImage})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = env.Destroy(t.Context()) }()
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := env.Exec(ctx, "exec sleep 4711", environment.ExecOptions{})
			done <- err
		}()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if _, err := env.Exec(t.Context(), `cat /proc/[0-9]*/cmdline | tr '\0' ' '`, environment.ExecOptions{Stdout: &out}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "sleep 4711") {
		t.Errorf("it runs on: %s", out.String())
	}
}
