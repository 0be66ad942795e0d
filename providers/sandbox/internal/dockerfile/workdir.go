package dockerfile

import (
	"context"
	"fmt"

	"github.com/org/rollout-action/providers/sandbox/internal/machine"
)

// makeDir is a WORKDIR instruction. It creates the directory and missing parents. As in BuildKit
// they belong to the current USER.
type makeDir struct {
	path string
	user string
}

// prepare implements operation.
func (d makeDir) prepare(_ context.Context, _ *builder, k key) (apply, error) {
	k.text(d.path, d.user)
	return d.apply, nil
}

func (d makeDir) apply(ctx context.Context, root machine.Root) error {
	missing, err := missingDirs(ctx, root, d.path)
	if err != nil {
		return fmt.Errorf("WORKDIR: %w", err)
	}
	if len(missing) == 0 {
		return nil
	}
	var own *owner
	if d.user != "" {
		found, err := lookup(ctx, root, d.user)
		if err != nil {
			return fmt.Errorf("WORKDIR %s for the user %s: %w", d.path, d.user, err)
		}
		own = &found
	}
	return put(ctx, root, func(w *writer) error {
		w.own = own
		for _, dir := range missing {
			if err := w.dir(dir); err != nil {
				return err
			}
		}
		return nil
	})
}
