package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/org/rollout-action/internal/core/environment"
)

// CopyTo implements environment.Environment.
func (e *containerEnv) CopyTo(ctx context.Context, files ...environment.Copy) error {
	err := persist(ctx, func() error { return e.upload(ctx, files) })
	if err != nil {
		return failedInside(environment.KindCopy, "copy into the container", err)
	}
	return nil
}

// upload sends files in one request. Directories and other files are only exchanged for each other
// if one of the copies is to be clean.
func (e *containerEnv) upload(ctx context.Context, files []environment.Copy) error {
	if len(files) == 0 {
		return nil
	}
	if err := e.p.config.checkCopies(files); err != nil {
		return err
	}
	reader, writer := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := environment.Pack(writer, files...)
		writer.CloseWithError(err)
		packed <- err
	}()
	clean := slices.ContainsFunc(files, func(c environment.Copy) bool { return c.Clean })
	err := e.p.api.CopyToContainer(ctx, e.id, "/", reader, container.CopyToContainerOptions{AllowOverwriteDirWithFile: clean})
	reader.Close()
	// If packing failed, the engine's error follows from that; unless it ended because the engine
	// did not read on.
	if source := <-packed; source != nil && !errors.Is(source, io.ErrClosedPipe) {
		return source
	}
	return err
}

// CopyFrom implements environment.Environment.
func (e *containerEnv) CopyFrom(ctx context.Context, src, dst string, opts environment.ExtractOptions) (environment.Extracted, error) {
	archive, _, err := copyOut(ctx, e.p, e.id, src) // which is repeated by itself
	if err != nil {
		return environment.Extracted{}, e.missing(ctx, src, err)
	}
	defer archive.Close()
	out, err := environment.Extract(archive, dst, path.Base(src), opts)
	doing := "copy " + src + " out of the container"
	if errors.Is(err, environment.ErrCutArchive) { // a file changed, or the container ended
		if state, lost := e.p.api.ContainerInspect(ctx, e.id); lost == nil && state.State != nil && state.State.Running {
			return out, wrapped(environment.KindCopy, doing, err)
		}
	}
	if err != nil {
		return out, failedInside(environment.KindCopy, doing, err)
	}
	return out, nil
}

// missing returns the error of a failed copy: it distinguishes a file that does not exist from a
// container that does not, and from other failures.
func (e *containerEnv) missing(ctx context.Context, src string, err error) error {
	doing := "copy " + src + " out of the container"
	if isContext(err) || isConnection(err) {
		return failedInside(environment.KindCopy, doing, err)
	}
	if _, lost := e.p.api.ContainerInspect(ctx, e.id); lost != nil {
		return failedInside(environment.KindCopy, doing, lost)
	}
	if cerrdefs.IsNotFound(err) || e.belowFile(ctx, src) {
		return &environment.Error{Kind: environment.KindCopy, Err: fmt.Errorf("%s: %w (%w)", src, fs.ErrNotExist, err)}
	}
	return wrapped(environment.KindCopy, doing, err)
}

// belowFile reports whether one of src's parents is a file; engines report that as an internal
// error.
func (e *containerEnv) belowFile(ctx context.Context, src string) bool {
	for dir := path.Dir(path.Clean(src)); len(dir) > 1; dir = path.Dir(dir) {
		if stat, err := e.p.api.ContainerStatPath(ctx, e.id, dir); err == nil {
			return stat.Mode.IsRegular()
		}
	}
	return false
}
