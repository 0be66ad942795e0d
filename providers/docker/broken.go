package docker

import (
	"context"
	"strconv"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"

	"github.com/org/rollout-action/internal/lib/awake"
)

// notRun is the exit code that engines give a command which they could not run, and one whose
// connection broke, though that one goes on. Source: moby, daemon/exec.go (ContainerExecStart).
const notRun = 126

// eventTime is how long an engine may take to report past events.
const eventTime = 10 * time.Second

// isBroken reports whether a command whose exit code is notRun may not have ended, or not with that
// code. Engines report an event with the true code for each command that ended. They keep few
// events: a command without one counts as broken, because a wrong exit code would be taken for the
// agent's or the verifier's.
func (e *containerEnv) isBroken(ctx context.Context, id string) bool {
	ctx, cancel := awake.WithTimeout(context.WithoutCancel(ctx), eventTime)
	defer cancel()
	past, failed := e.p.api.Events(ctx, events.ListOptions{Since: "1", Filters: filters.NewArgs(
		filters.Arg("container", e.id), filters.Arg("event", string(events.ActionExecDie)),
	)})
	for {
		select {
		case event := <-past:
			if event.Actor.Attributes["execID"] != id {
				continue
			}
			return event.Actor.Attributes["exitCode"] != strconv.Itoa(notRun)
		case <-failed: // which is also how it ends with ctx
			return true
		}
	}
}
