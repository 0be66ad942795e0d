package dataset

import (
	"cmp"
	"context"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/org/rollout-action/internal/core/event"
	"github.com/org/rollout-action/internal/core/task"
	"github.com/org/rollout-action/internal/lib/diag"
	"github.com/org/rollout-action/internal/lib/git"
	"github.com/org/rollout-action/internal/run/registry"
)

// Visited is a task of a registry's dataset.
type Visited struct {
	Name    string           // as the registry calls it
	Task    *task.Task       // nil if it cannot be fetched
	Problem *diag.Diagnostic // why not
}

// Visit fetches all tasks of a dataset, as Load does, and calls visit with each of them, in any
// order and several at a time. Afterwards the tasks must not be used, so that the memory does not
// grow with the dataset. A task that the registry locates wrongly, or not at all, has a Problem.
// opts are for loading the tasks; their format is the dataset's. The error is a diag.List if the
// dataset is invalid; any other one is that of ctx, of fetching, or a fault of this machine.
func (s *Source) Visit(ctx context.Context, reg *registry.Registry, d *registry.Dataset, opts task.Options, visit func(Visited)) error {
	if err := reg.Check(d).Err(); err != nil {
		return err
	}
	opts.Format = cmp.Or(task.Format(d.Format), task.FormatHarbor)
	p := &pick{ref: Ref{Options: opts}, registry: reg, dataset: d}
	trust := git.Trust(!reg.Remote() && s.Admit == nil)
	for i := range d.Tasks {
		t := &d.Tasks[i]
		if _, problem := p.request(t, trust); problem != nil {
			visit(Visited{Name: t.Name, Problem: problem})
			continue
		}
		p.tasks = append(p.tasks, t)
	}
	f, err := s.fetchAll(ctx, []*pick{p})
	if err != nil {
		return err
	}
	work := event.Begin(ctx, "Checking tasks", len(p.tasks))
	defer work.End()
	loader := task.Loader{Options: opts}
	group, until := errgroup.WithContext(ctx)
	group.SetLimit(2 * runtime.GOMAXPROCS(0))
	for _, t := range p.tasks {
		if until.Err() != nil {
			break
		}
		group.Go(func() error {
			defer work.Step()
			read, err := f.one(until, &loader, p, t)
			if err != nil {
				return err
			}
			visit(Visited{Name: t.Name, Task: read})
			return nil
		})
	}
	return cmp.Or(group.Wait(), ctx.Err())
}
