package library

import (
	"context"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/org/rollout-action/internal/app/reporting"
	"github.com/org/rollout-action/internal/core/report"
	"github.com/org/rollout-action/internal/core/result"
	"github.com/org/rollout-action/internal/output/page"
)

// storedBase finds the baseline of a job's stored verdict in a library. It searches once, at the
// first call of get.
type storedBase struct {
	library *Library
	dir     string // of the job that was compared with it
	sought  bool
	found   *openedJob
}

// get returns the open baseline, or nil.
func (b *storedBase) get(ctx context.Context) *openedJob {
	if !b.sought {
		b.sought, b.found = true, b.library.storedBase(ctx, b.dir)
	}
	return b.found
}

// files returns the files of the baseline and how its directory is shown, or nil.
func (b *storedBase) files(ctx context.Context) (fs.FS, string) {
	base := b.get(ctx)
	if base == nil {
		return nil, ""
	}
	return base.Files, base.Dir
}

func (b *storedBase) close() error {
	if b.found == nil {
		return nil
	}
	return b.found.Close()
}

// storedBase finds and opens the job that the verdict of the job in dir was given against: by name,
// start and plan, among the jobs of the library, or next to the only one. It returns nil if there
// is none.
func (l *Library) storedBase(ctx context.Context, dir string) *openedJob {
	verdict, _ := reporting.ReadVerdict(l.h.Paths, dir)
	if verdict == nil || verdict.Comparison == nil {
		return nil
	}
	base, around := verdict.Comparison.Base, l.path
	list := func() ([]foundJob, error) { return l.all(ctx, time.Unix(0, 0)) } // numbers are not needed
	open := l.open
	if l.single != "" && !l.file {
		around = filepath.Join(l.path, "..")
		list = func() ([]foundJob, error) { return l.list(ctx, around, nil, time.Unix(0, 0)) }
		open = func(address string) (*openedJob, error) { return l.openBelow(around, page.Names(address), true) }
	}
	jobs, err := list()
	if err != nil {
		return nil
	}
	for _, job := range jobs {
		if job.Name == base.JobName && job.StartedAt.Equal(base.StartedAt) && job.digest == base.PlanDigest {
			if opened, err := open(job.address); err == nil {
				return opened
			}
		}
	}
	return nil
}

// compare compares the results of a job that have only a stored verdict with its baseline. The
// verdict stays as it is. Without the baseline nothing changes.
func (b *storedBase) compare(ctx context.Context, in *report.Input) error {
	if in.Stored == nil || in.Diff != nil {
		return nil
	}
	base := b.get(ctx)
	if base == nil {
		return nil
	}
	if err := base.prepare(ctx); err != nil {
		return err
	}
	tree, err := result.ReadTree(b.library.h.Path(base.dir))
	if err != nil {
		return nil //nolint:nilerr // the rows of the verdict are shown instead
	}
	diff := result.Compare(result.Summarize(tree.Plan, tree.All()), in.Job)
	in.Diff, in.Stored, in.BaseFiles, in.BaseDir = &diff, nil, base.Files, base.Dir
	return nil
}
