package apple

import (
	"context"
	"errors"
	"fmt"

	"github.com/org/rollout-action/internal/core/environment"
)

const startHint = "start it with `container system start`"

// failed returns err as a failure to do something with kind. If the system service does not answer,
// it is KindUnavailable, whatever the operation. The program has no codes that tell its failures
// apart.
func (p *Provider) failed(ctx context.Context, kind environment.Kind, doing string, err error) error {
	var known *environment.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", doing, context.Cause(ctx))
	case errors.As(err, &known):
		return fmt.Errorf("%s: %w", doing, err)
	}
	e := &environment.Error{Kind: kind, Err: fmt.Errorf("%s: %w", doing, err)}
	if errors.As(err, new(*commandError)) && !p.command.serving(ctx) && ctx.Err() == nil {
		e.Kind, e.Transient, e.Hint = environment.KindUnavailable, true, "the system service of container does not answer: "+startHint
	}
	return e
}
