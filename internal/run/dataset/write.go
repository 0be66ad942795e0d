package dataset

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/untrusted"
)

// Written is the result of Set.Write.
type Written struct {
	Tasks  int
	Failed diag.List // a problem for each task that has no files
}

// Write writes each task of the set into its own directory below dir. It overwrites no file.
func (s *Set) Write(ctx context.Context, dir string) (Written, error) {
	var out Written
	for _, t := range s.Tasks {
		if t.Missing || isEmpty(t.FS) {
			out.Failed = append(out.Failed, missingTask(t))
			continue
		}
		if err := ctx.Err(); err != nil {
			return out, err
		}
		if err := os.CopyFS(filepath.Join(dir, result.Slug(t.Name)), t.FS); err != nil {
			return out, fmt.Errorf("write the task %s: %w", untrusted.Line(t.Name), err)
		}
		out.Tasks++
	}
	return out, nil
}

// missingTask returns the problem of a task that has no files.
func missingTask(t *task.Task) diag.Diagnostic {
	d := diag.Diagnostic{File: untrusted.Line(t.Place()), Message: "there is no such task"}
	if len(t.Problems) > 0 {
		d.Message = t.Problems[0].Message
	}
	if t.Nearest != "" {
		d.Hint = fmt.Sprintf("did you mean %s?", untrusted.Line(t.Nearest))
	}
	return d
}

func isEmpty(fsys fs.FS) bool {
	entries, err := fs.ReadDir(fsys, ".")
	return err != nil || len(entries) == 0
}
