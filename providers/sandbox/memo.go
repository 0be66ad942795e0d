//go:build linux

package sandbox

import (
	"context"
	"sync"
)

// memo remembers what was found for a name. Those who ask at the same time wait for the first, whose failure is
// not remembered.
type memo[T any] struct {
	mu    sync.Mutex
	found map[string]T
	going map[string]chan struct{}
}

func (m *memo[T]) get(ctx context.Context, name string, find func(context.Context) (T, error)) (T, error) {
	for {
		m.mu.Lock()
		if found, ok := m.found[name]; ok {
			m.mu.Unlock()
			return found, nil
		}
		going, busy := m.going[name]
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
		m.found, m.going = map[string]T{}, map[string]chan struct{}{}
	}
	done := make(chan struct{})
	m.going[name] = done
	m.mu.Unlock()

	found, err := find(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		m.found[name] = found
	}
	delete(m.going, name)
	close(done)
	return found, err
}

// forget makes the next call find name again.
func (m *memo[T]) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.found, name)
}
