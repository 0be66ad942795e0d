package environmenttest

import (
	"context"

	"github.com/org/rollout-action/internal/core/environment"
)

// snapshotHooks replace a provider's methods for images.
type snapshotHooks struct {
	snapshot    func(e *brokenEnv, ctx context.Context, o environment.SnapshotOptions) (string, error)
	find        func(m *mutant, ctx context.Context, key string) (ref, description string, err error)
	lock        func(m *mutant, ctx context.Context, key string) (func(), error)
	imageID     func(m *mutant, ctx context.Context, ref string) (string, error)
	images      func(m *mutant, ctx context.Context) ([]environment.Image, error)
	removeImage func(m *mutant, ctx context.Context, id string) error
}

func (m *mutant) FindSnapshot(ctx context.Context, key string) (ref, description string, err error) {
	if m.find != nil {
		return m.find(m, ctx, key)
	}
	return environment.FindSnapshot(ctx, m.Provider, key)
}

func (m *mutant) LockSnapshot(ctx context.Context, key string) (func(), error) {
	if m.lock != nil {
		return m.lock(m, ctx, key)
	}
	return environment.LockSnapshot(ctx, m.Provider, key)
}

func (m *mutant) ImageID(ctx context.Context, ref string) (string, error) {
	if m.imageID != nil {
		return m.imageID(m, ctx, ref)
	}
	return environment.ImageID(ctx, m.Provider, ref)
}

func (m *mutant) Images(ctx context.Context) ([]environment.Image, error) {
	if m.images != nil {
		return m.images(m, ctx)
	}
	return m.Provider.(environment.ImageStore).Images(ctx)
}

func (m *mutant) RemoveImage(ctx context.Context, id string) error {
	if m.removeImage != nil {
		return m.removeImage(m, ctx, id)
	}
	return m.Provider.(environment.ImageStore).RemoveImage(ctx, id)
}

func (e *brokenEnv) Snapshot(ctx context.Context, o environment.SnapshotOptions) (string, error) {
	if e.m.snapshot != nil {
		return e.m.snapshot(e, ctx, o)
	}
	return environment.Snapshot(ctx, e.Environment, o)
}

// snapshots returns hooks that replace Snapshot.
func snapshots(snapshot func(e *brokenEnv, ctx context.Context, o environment.SnapshotOptions) (string, error)) hooks {
	return hooks{snapshotHooks: snapshotHooks{snapshot: snapshot}}
}

var optionalMutants = []broken{
	{"has the core alone and does not say so", []string{"a provider has every optional interface *"}, hooks{core: true}},
}

var snapshotMutants = []broken{
	{"keeps the image instead of what was changed", []string{
		"a snapshot has the files *", "a snapshot of a snapshot *", "a snapshot replaces *", "a snapshot is found by its key",
	}, snapshots(func(e *brokenEnv, ctx context.Context, o environment.SnapshotOptions) (string, error) {
		unchanged, err := e.m.Provider.CreateEnvironment(ctx, environment.CreateOptions{Image: "debian:bookworm"})
		if err != nil {
			return "", err
		}
		defer unchanged.Destroy(ctx)
		return environment.Snapshot(ctx, unchanged, o)
	})},
	{"lets the environment of a snapshot live", []string{"a snapshot has no processes, *"}, hooks{
		exec: func(e *brokenEnv, ctx context.Context, script string, o environment.ExecOptions) (int, error) {
			code, err := e.Environment.Exec(ctx, script, o)
			if environment.KindOf(err) == environment.KindLost {
				return 0, nil
			}
			return code, err
		}}},
	{"forgets what it has kept", []string{"a snapshot is found by its key"}, hooks{snapshotHooks: snapshotHooks{
		find: func(*mutant, context.Context, string) (string, string, error) { return "", "", nil },
	}}},
	{"keeps without looking", []string{"all that a snapshot keeps is inspected, *", "a snapshot that is refused *"},
		snapshots(func(e *brokenEnv, ctx context.Context, o environment.SnapshotOptions) (string, error) {
			o.Inspect = nil
			return environment.Snapshot(ctx, e.Environment, o)
		})},
	{"keeps variables", []string{"an environment with its own variables becomes no image"},
		changeCreate(func(o *environment.CreateOptions) { o.Env = nil })},
	{"takes all images for one", []string{"an image's id is that of its content"}, hooks{snapshotHooks: snapshotHooks{
		imageID: func(*mutant, context.Context, string) (string, error) { return "an image", nil },
	}}},
	{"locks nothing", []string{"a snapshot's lock keeps others out"}, hooks{snapshotHooks: snapshotHooks{
		lock: func(*mutant, context.Context, string) (func(), error) { return func() {}, nil },
	}}},
	{"lists nothing", []string{"images are listed, *"}, hooks{snapshotHooks: snapshotHooks{
		images: func(*mutant, context.Context) ([]environment.Image, error) { return nil, nil },
	}}},
	{"removes nothing", []string{"images are listed, *"}, hooks{snapshotHooks: snapshotHooks{
		removeImage: func(*mutant, context.Context, string) error { return nil },
	}}},
	{"removes what is used", []string{"images are listed, *"}, hooks{snapshotHooks: snapshotHooks{
		removeImage: func(m *mutant, ctx context.Context, id string) error {
			_ = m.Provider.(environment.ImageStore).RemoveImage(ctx, id)
			return nil
		},
	}}},
}
