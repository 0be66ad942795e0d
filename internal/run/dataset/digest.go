package dataset

import (
	"context"
	"errors"
	"fmt"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/core/task/harborfiles"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/untrusted"
	"github.com/org/rollout-action/internal/run/registry"
)

// checkDigest returns the problem with a task whose files do not have the digest that a
// dataset.toml gives. If their digest cannot be known, it is a warning. The error is that of ctx,
// or a fault of this machine.
func checkDigest(ctx context.Context, t *task.Task, want string) (*diag.Diagnostic, error) {
	got, err := harborfiles.Digest(ctx, t.FS)
	problem := diag.Diagnostic{File: t.File("")}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case environment.MachineFault(err) != nil:
		return nil, fmt.Errorf("read the task %s: %w", t.Place(), err)
	case errors.Is(err, harborfiles.ErrUnknown):
		problem.Severity = diag.Warning
		problem.Message = untrusted.Line(fmt.Sprintf("it is not known whether its files are those that %s means: %v", registry.ManifestFile, err))
	case err != nil:
		problem.Message = untrusted.Line(fmt.Sprintf("its digest cannot be compared with that in %s: %v", registry.ManifestFile, err))
	case got != want:
		problem.Message = fmt.Sprintf("%s gives the digest %q, and the digest of its files is %q", registry.ManifestFile, untrusted.Cut(untrusted.Line(want), 100), got)
		problem.Hint = "name a commit at which they agree, as org/name@ref, or leave the task out: exclude_tasks in the job"
	default:
		return nil, nil
	}
	return &problem, nil
}
