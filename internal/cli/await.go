package cli

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/awake"
	"github.com/org/rollout-action/providers"
)

// How long a command that is cancelled may go on. Most end at once. A command that computes for
// long, or waits for a file that never comes, does not see its context.
const (
	cancelGrace = 3 * time.Second // a command without environments, which loses nothing
	abortGrace  = 8 * time.Second // one with environments, after the second signal: they are removed meanwhile
)

// connections counts the providers that a command is connected to: what they run is removed before
// they are closed.
type connections struct{ n atomic.Int32 }

// connection is a provider that is counted until it is closed.
type connection struct {
	environment.Provider
	close func() error
}

func (c *connection) Close() error { return c.close() }

// Unwrap returns the provider itself.
func (c *connection) Unwrap() environment.Provider { return c.Provider }

// watch returns a table of providers that c counts.
func (c *connections) watch(table providers.Table) providers.Table {
	watched := make(providers.Table, len(table))
	for i, entry := range table {
		connect := entry.New
		entry.New = func(ctx context.Context, cfg map[string]any, host providers.Host) (environment.Provider, error) {
			c.n.Add(1)
			end := sync.OnceFunc(func() { c.n.Add(-1) })
			provider, err := connect(ctx, cfg, host)
			if err != nil {
				end()
				return nil, err
			}
			return &connection{provider, func() error { defer end(); return provider.Close() }}, nil
		}
		watched[i] = entry
	}
	return watched
}

// await returns the error of a command when it ends. A command that goes on although it was
// cancelled is left behind, and the process ends without it: after cancelGrace if it has no
// environments, else after hard has ended and abortGrace.
func (c *connections) await(soft, hard context.Context, ended <-chan error) error {
	select {
	case err := <-ended:
		return err
	case <-soft.Done():
	case <-hard.Done():
	}
	waiting, stop := context.WithCancel(context.Background())
	defer stop()
	select {
	case err := <-ended:
		return err
	case <-awake.After(waiting, cancelGrace):
	}
	if c.n.Load() > 0 {
		select {
		case err := <-ended:
			return err
		case <-hard.Done():
		}
		select {
		case err := <-ended:
			return err
		case <-awake.After(waiting, abortGrace):
		}
	}
	return fmt.Errorf("%w: the command did not end by itself", host.ErrCancelled)
}
