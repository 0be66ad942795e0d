package environmenttest

import (
	"context"

	"github.com/org/rollout-action/internal/core/environment"
)

func (e *brokenEnv) KeepOutcome(ctx context.Context) (environment.Outcome, error) {
	if e.m.keep != nil {
		return e.m.keep(e, ctx)
	}
	return environment.KeepOutcome(ctx, e.Environment)
}

// keeps returns hooks that replace KeepOutcome.
func keeps(keep func(e *brokenEnv, ctx context.Context) (environment.Outcome, error)) hooks {
	return hooks{keep: keep}
}

// before returns hooks that run a script in the environment before its outcome is kept.
func before(script string) hooks {
	return keeps(func(e *brokenEnv, ctx context.Context) (environment.Outcome, error) {
		if _, err := e.Environment.Exec(ctx, script, environment.ExecOptions{}); err != nil {
			return environment.Outcome{}, err
		}
		return environment.KeepOutcome(ctx, e.Environment)
	})
}

// after returns hooks that run a script in environments restored from kept files.
func after(script string, change ...func(o *environment.CreateOptions)) hooks {
	return hooks{restore: func(m *mutant, ctx context.Context, id string, o environment.CreateOptions) (environment.Environment, error) {
		for _, c := range change {
			c(&o)
		}
		env, err := environment.Restore(ctx, m.Provider, id, o)
		if err == nil {
			_, err = env.Exec(ctx, script, environment.ExecOptions{})
		}
		return env, err
	}}
}

var outcomeMutants = []broken{
	{"keeps the image instead of what was changed", []string{"an outcome has the files *", "an outcome is complete *"},
		keeps(func(e *brokenEnv, ctx context.Context) (environment.Outcome, error) {
			unchanged, err := e.m.Provider.CreateEnvironment(ctx, environment.CreateOptions{Image: "debian:bookworm"})
			if err != nil {
				return environment.Outcome{}, err
			}
			defer unchanged.Destroy(ctx)
			return environment.KeepOutcome(ctx, unchanged)
		})},
	{"stops the environment", []string{"an outcome has the files of its moment, *", "processes go on *"},
		keeps(func(e *brokenEnv, ctx context.Context) (environment.Outcome, error) {
			return environment.Outcome{ID: e.ID(), Size: 1}, e.Environment.Stop(ctx)
		})},
	{"loses an owner", []string{"an outcome is complete *"}, after("chown 1 /made/program")},
	{"loses a time", []string{"an outcome is complete *"}, after("touch /made/old")},
	{"separates hard links", []string{"an outcome is complete *"}, after(`cd /made; cp -p hard other; mv other hard`)},
	{"shows what was removed", []string{"an outcome is complete *"}, after("touch /usr/share/doc/again")},
	{"forgets what it has kept", []string{"an outcome is listed *", "an outcome has the files of its moment, *"},
		keeps(func(e *brokenEnv, ctx context.Context) (environment.Outcome, error) {
			kept, err := environment.KeepOutcome(ctx, e.Environment)
			if err == nil {
				err = e.m.Provider.Remove(ctx, kept.ID)
			}
			return kept, err
		})},
	{"does not know the size of what it has kept", []string{"an outcome is listed *"},
		keeps(func(e *brokenEnv, ctx context.Context) (environment.Outcome, error) {
			kept, err := environment.KeepOutcome(ctx, e.Environment)
			kept.Size = 0
			return kept, err
		})},
	{"removes no outcome", []string{"an outcome is listed *"}, hooks{remove: func(m *mutant, ctx context.Context, id string) error {
		for _, e := range m.all() {
			if e.ID() == id {
				return m.Provider.Remove(ctx, id)
			}
		}
		return nil
	}}},
	{"ends the processes", []string{"processes go on *"}, before("kill -KILL $(cat /made/id)")},
	{"leaves the processes stopped", []string{"processes go on *"}, before("kill -STOP $(cat /made/id); until grep -q '^State:.T' /proc/$(cat /made/id)/status; do :; done")},
	{"lets those go on that were stopped", []string{"processes go on *"}, before("kill -CONT $(cat /made/stopped); until grep -q '^State:.S' /proc/$(cat /made/stopped)/status; do :; done")},
	{"keeps files of several moments", []string{"an outcome has the files of one moment *"}, after("cd /made; for f in {10..40}; do echo $RANDOM$f >$f; done")},
	{"keeps the variables", []string{"an outcome has no values *"}, after("", func(o *environment.CreateOptions) {
		o.Env = map[string]string{"WHO": "a secret value"}
	})},
	{"leaves files in memory out", []string{"an outcome is refused *"}, before("rm -rf /dev/shm/*")},
	{"keeps what was cancelled", []string{"an outcome that is cancelled *"},
		keeps(func(e *brokenEnv, ctx context.Context) (environment.Outcome, error) {
			return environment.KeepOutcome(context.WithoutCancel(ctx), e.Environment)
		})},
	{"keeps what is gone", []string{"nothing is kept of *"},
		keeps(func(*brokenEnv, context.Context) (environment.Outcome, error) { return environment.Outcome{}, nil })},
}
