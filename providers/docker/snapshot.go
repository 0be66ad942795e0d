package docker

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/org/rollout-action/internal/core/environment"
)

const (
	// snapshotRepository is where images are found that Snapshot has kept: their tags are the keys.
	snapshotRepository = "rollout/layer"

	labelBase        = "rollout.base" // id of the image that a snapshot stands on
	labelDescription = "rollout.description"
)

// Snapshot implements environment.Snapshottable: the container is killed, inspected and
// committed.
func (e *containerEnv) Snapshot(ctx context.Context, opts environment.SnapshotOptions) (string, error) {
	e.ended.Store(true)
	doing := "keep container " + e.id[:12] + " as an image"
	err := e.p.api.ContainerKill(ctx, e.id, "KILL")
	if err != nil && !cerrdefs.IsConflict(err) { // conflict: not running
		return "", failedInside(environment.KindSnapshot, doing, err)
	}
	base, err := e.keepable(ctx)
	if err == nil && opts.Inspect != nil {
		err = e.inspect(ctx, opts.Inspect)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return "", failedInside(environment.KindSnapshot, doing, err)
	}
	ref := snapshotRef(opts.Key)
	replaced, _ := e.p.api.ImageInspect(ctx, ref) // none, as a rule
	labels := committedLabels("layer", base, opts.Description)
	_, err = commit(ctx, e.p, e.id, container.CommitOptions{
		Reference: ref,
		Comment:   opts.Description,
		// Over the container's; all else is the container's, whose own check is none.
		Config: &container.Config{Labels: labels, Healthcheck: e.settings.healthcheck},
	})
	if err != nil {
		return "", failedInside(environment.KindSnapshot, doing, err)
	}
	e.p.removeNameless(ctx, replaced.ID)
	e.p.forgetSettings(ref)
	return ref, nil
}

// snapshotRef returns the reference of the image with a key.
func snapshotRef(key string) string { return snapshotRepository + ":" + key }

// keepable returns the id of the container's image, or the reason why the container cannot be kept.
func (e *containerEnv) keepable(ctx context.Context) (base string, err error) {
	if e.variables {
		return "", errors.New("it was created with variables, and images must not have them")
	}
	state, _, err := e.p.api.ContainerInspectWithRaw(ctx, e.id, true)
	if err != nil {
		return "", err
	}
	if err := checkSize(state); err != nil {
		return "", err
	}
	if at := volumeOf(state); at != "" {
		return "", fmt.Errorf("its image has a VOLUME at %s, whose files are not a part of images", at)
	}
	return state.Image, nil
}

// volumeOf returns where a container has a volume, or "".
func volumeOf(state container.InspectResponse) string {
	for _, m := range state.Mounts {
		if m.Type == mount.TypeVolume {
			return m.Destination
		}
	}
	return ""
}

// inspect shows what the container has changed: the engine lists the paths, and writes all files in
// one stream, which takes one request however many there are.
func (e *containerEnv) inspect(ctx context.Context, see func(*tar.Header, io.Reader) error) error {
	changes, err := e.p.api.ContainerDiff(ctx, e.id)
	if err != nil || len(changes) == 0 {
		return err
	}
	changed := make(map[string]bool, len(changes))
	for _, c := range changes {
		if c.Kind != container.ChangeDelete {
			changed[c.Path] = true
		}
	}
	stream, err := e.p.api.ContainerExport(ctx, e.id)
	if err != nil {
		return err
	}
	defer stream.Close()
	for archive := tar.NewReader(stream); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := "/" + strings.Trim(strings.TrimPrefix(header.Name, "./"), "/")
		if !changed[asJSON(name)] {
			continue
		}
		header.Name = name
		if err := see(header, archive); err != nil {
			return err
		}
	}
}

// asJSON returns a text as the engine's JSON represents it: each byte that is not UTF-8 is replaced
// by U+FFFD.
func asJSON(text string) string { return string([]rune(text)) }

// FindSnapshot implements environment.Snapshotter.
func (p *Provider) FindSnapshot(ctx context.Context, key string) (ref, description string, err error) {
	ref = snapshotRef(key)
	found, err := inspectImage(ctx, p, ref)
	switch {
	case cerrdefs.IsNotFound(err):
		return "", "", nil
	case err != nil:
		return "", "", failed(environment.KindUnavailable, "look for image "+ref, err)
	}
	noteUse(ref)
	p.noteSettings(ref, found)
	if found.Config != nil {
		description = found.Config.Labels[labelDescription]
	}
	return ref, description, nil
}

// LockSnapshot implements environment.Snapshotter: processes of this user on this machine keep each
// other out. Others may make the same image, and the last one is kept.
func (p *Provider) LockSnapshot(ctx context.Context, key string) (func(), error) {
	unlock := lock(ctx, "layer-"+key[:2])
	if err := ctx.Err(); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// ImageID implements environment.ImageIdentifier.
func (p *Provider) ImageID(ctx context.Context, ref string) (string, error) {
	found, err := inspectImage(ctx, p, ref)
	switch {
	case err == nil:
		p.noteSettings(ref, found)
		return found.ID, nil
	case cerrdefs.IsNotFound(err):
		return "", &environment.Error{Kind: environment.KindStart, Err: fmt.Errorf("%s: %w", ref, environment.ErrNoImage)}
	}
	return "", failed(environment.KindUnavailable, "look for image "+ref, err)
}
