//go:build linux

package sandbox

import (
	"context"
	"sync"
)

// memo caches the results of find by name. Concurrent callers with one name share the first call.
// An error is not cached: the next caller tries again, with its own context.
type memo[T any] struct {
	mu      sync.Mutex
	found   map[string]T
	running map[string]chan struct{}
}

func (m *memo[T]) get(ctx context.Context, name string, find func(context.Context) (T, error)) (T, error) {
	for {
		m.mu.Lock()
		if found, ok := m.found[name]; ok {
			m.mu.Unlock()
			return found, nil
		}
		going, busy := m.running[name]
		if !busy {
			break
		}
		m.mu.Unlock()
		select {
		case <-going:
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		}
	}
	if m.found == nil {
		m.found, m.running = map[string]T{}, map[string]chan struct{}{}
	}
	done := make(chan struct{})
	m.running[name] = done
	m.mu.Unlock()

	found, err := find(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		m.found[name] = found
	}
	delete(m.running, name)
	close(done)
	return found, err
}

// forget makes the next call find name again.
func (m *memo[T]) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.found, name)
}
