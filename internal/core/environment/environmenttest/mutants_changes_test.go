package environmenttest

import (
	"context"

	"github.com/org/rollout-action/internal/core/environment"
)

func (e *brokenEnv) Changes(ctx context.Context, o environment.ChangeOptions) (environment.Changes, error) {
	if e.m.changes != nil {
		return e.m.changes(e, ctx, o)
	}
	return environment.ChangesOf(ctx, e.Environment, o)
}

// reports returns hooks that change the options and the answer of Changes.
func reports(options func(*environment.ChangeOptions), answer func(*environment.Changes)) hooks {
	return hooks{changes: func(e *brokenEnv, ctx context.Context, o environment.ChangeOptions) (environment.Changes, error) {
		if options != nil {
			options(&o)
		}
		got, err := environment.ChangesOf(ctx, e.Environment, o)
		if answer != nil {
			answer(&got)
		}
		return got, err
	}}
}

var changeMutants = []broken{
	{"reports no changes", []string{"files that were added, *", "changes are chosen *"}, reports(nil, func(c *environment.Changes) { c.Files = nil })},
	{"does not know what was there before", []string{"files that were added, *"}, reports(nil, func(c *environment.Changes) {
		for i := range c.Files {
			c.Files[i].Before = nil
		}
	})},
	{"does not read large files in part", []string{"files that were added, *"}, reports(func(o *environment.ChangeOptions) { o.Text = 1 << 20 }, nil)},
	{"has changes that nobody made", []string{"an environment in which nothing *"}, reports(nil, func(c *environment.Changes) {
		c.Files = append(c.Files, environment.Change{Path: "/srv/other", After: &environment.FileState{}})
	})},
	{"leaves nothing out", []string{"changes are chosen *"}, reports(func(o *environment.ChangeOptions) { o.Skip = nil }, nil)},
	{"knows no limit", []string{"changes are chosen *"}, reports(func(o *environment.ChangeOptions) { o.Files = 1000 }, nil)},
	{"has an order of its own", []string{"changes are chosen *"}, reports(func(o *environment.ChangeOptions) { o.First = "" }, nil)},
	{"leaves an environment behind", []string{"a list of changes leaves nothing behind"}, hooks{changes: func(e *brokenEnv, ctx context.Context, o environment.ChangeOptions) (environment.Changes, error) {
		listed, err := e.m.Provider.List(ctx)
		if err != nil {
			return environment.Changes{}, err
		}
		for _, l := range listed {
			if l.ID != e.ID() {
				continue
			}
			if _, err := e.m.Provider.CreateEnvironment(ctx, environment.CreateOptions{Image: "debian:bookworm", Labels: l.Labels}); err != nil {
				return environment.Changes{}, err
			}
		}
		return environment.ChangesOf(ctx, e.Environment, o)
	}}},
}
