package docker

import (
	"context"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"

	"github.com/org/rollout-action/providers/docker/internal/killer"
)

// notRun is the exit code that engines give a command which they could not run, and one whose connection broke, though that
// one goes on. Source: moby, daemon/exec.go (ContainerExecStart).
const notRun = 126

// eventTime is how long an engine may take to tell what has happened already.
const eventTime = 2 * time.Second

// isBroken reports whether a command whose exit code is notRun did not end, or did with another code: only one that ended is
// among the engine's events. These are few; where they say nothing of the command any more, its process is looked for.
func (e *containerEnv) isBroken(ctx context.Context, p *process) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startGrace)
	defer cancel()
	switch began, ended := e.told(ctx, p.id); {
	case ended:
		return false
	case began:
		return true
	}
	state, err := e.p.api.ContainerInspect(ctx, e.id)
	now, lost := e.p.api.ContainerExecInspect(ctx, p.id)
	if err != nil || lost != nil || state.State == nil {
		return true
	}
	found, err := e.ask(ctx, killer.Request{Op: killer.Find, First: state.State.Pid, Root: now.Pid})
	return err == nil && !found.Gone
}

// told reports which events there were of a command.
func (e *containerEnv) told(ctx context.Context, id string) (began, ended bool) {
	ctx, cancel := context.WithTimeout(ctx, eventTime)
	defer cancel()
	past, failed := e.p.api.Events(ctx, events.ListOptions{Since: "1", Filters: filters.NewArgs(
		filters.Arg("container", e.id), filters.Arg("event", "exec_start"), filters.Arg("event", "exec_die"),
	)})
	for {
		select {
		case event := <-past:
			if event.Actor.Attributes["execID"] != id {
				continue
			}
			if event.Action == events.ActionExecDie {
				return true, true
			}
			began = true
		case <-failed: // which is also how it ends with ctx
			return began, false
		}
	}
}
