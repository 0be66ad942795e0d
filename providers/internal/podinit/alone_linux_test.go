package podinit

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
)

// aloneVariable is a variable of a container whose guest waits for so long for its client.
const aloneVariable = "ROLLOUT_TEST_GUEST_ALONE"

// The guest begins in an init function, before which variables have their values.
var _ = func() bool {
	d, err := time.ParseDuration(os.Getenv(aloneVariable))
	if err == nil {
		aloneTime = d
	}
	return err == nil
}()

func TestContainerEndsWhenItsClientIsGone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		alone time.Duration // what comes before the client is gone must not take longer
		leave func(t *testing.T, c *container)
	}{
		"that has never come": {5 * time.Second, func(*testing.T, *container) {}},
		"that was killed": {time.Minute, func(t *testing.T, c *container) {
			t.Helper()
			e, err := Start(t.Context(), c.dial, Options{})
			if err != nil {
				t.Fatal(err)
			}
			run(t, e, "sleep 1000 >/dev/null 2>&1 &", environment.ExecOptions{})
			e.Close()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startContainer(t, "--env", aloneVariable+"="+test.alone.String())
			test.leave(t, c)
			code, err := exec.CommandContext(t.Context(), "docker", "wait", c.id).Output()
			if err != nil || strings.TrimSpace(string(code)) != "1" {
				t.Errorf("it ended with %q, %v", code, err)
			}
			said, err := exec.CommandContext(t.Context(), "docker", "logs", c.id).CombinedOutput()
			if err != nil || !strings.Contains(string(said), "no client has come for "+test.alone.String()) {
				t.Errorf("it said %q, %v", said, err)
			}
		})
	}
}
