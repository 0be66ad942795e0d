package hosted

import (
	"context"
	"time"
)

// createGrace is how long the answer to a creation is waited for that is not wanted any more.
const createGrace = 2 * time.Second

// Longer returns a context that ends a moment after ctx: a request in flight then gets it to
// complete, because a sandbox whose creation is answered later would be left behind. end must be
// called.
func Longer(ctx context.Context) (longer context.Context, end func()) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-longer.Done():
		case <-time.After(createGrace):
			cancel()
		}
	})
	return longer, func() { stop(); cancel() }
}
