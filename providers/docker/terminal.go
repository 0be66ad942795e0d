package docker

import (
	"context"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/org/rollout-action/internal/core/environment"
)

// resize gives the terminal of a command its size, and each new one, until ctx ends.
func (p *process) resize(ctx context.Context, t environment.Terminal) {
	size := t.Size
	for {
		heard := p.heard.Load()
		p.setSize(ctx, size)
		var again <-chan time.Time
		if !heard { // the terminal may not have been there yet
			again = time.After(pollMin)
		}
		select {
		case <-again:
		case <-ctx.Done():
			return
		case <-p.ended:
			return
		case size = <-t.Resized:
		}
	}
}

// setSize sets the size of the terminal. The engine refuses that until the command has begun. A
// size that cannot be set is left out: the command works without it.
func (p *process) setSize(ctx context.Context, size environment.TerminalSize) {
	if size == (environment.TerminalSize{}) {
		return
	}
	deadline := time.Now().Add(startGrace)
	for wait := pollMin / 10; time.Now().Before(deadline); wait = min(2*wait, pollMax) {
		err := p.e.p.api.ContainerExecResize(ctx, p.id, container.ResizeOptions{Height: uint(size.Rows), Width: uint(size.Columns)})
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-p.ended:
			return
		case <-time.After(wait):
		}
	}
}
