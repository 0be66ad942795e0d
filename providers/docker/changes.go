package docker

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"golang.org/x/sync/errgroup"

	"github.com/org/rollout-action/internal/core/environment"
)

// Changes implements environment.ChangeReporter. The engine lists the paths; files of the image
// come from a container that is never started.
func (e *containerEnv) Changes(ctx context.Context, opts environment.ChangeOptions) (environment.Changes, error) {
	out, err := e.changes(ctx, opts)
	if err != nil {
		return environment.Changes{}, failedInside(environment.KindCopy, "list the changed files of container "+e.id[:12], err)
	}
	return out, nil
}

func (e *containerEnv) changes(ctx context.Context, opts environment.ChangeOptions) (out environment.Changes, err error) {
	listed, err := e.p.api.ContainerDiff(ctx, e.id)
	if err != nil {
		return out, err
	}
	kinds := make(map[string]container.ChangeType, len(listed))
	paths := make([]string, 0, len(listed))
	for _, c := range listed {
		if strings.ContainsRune(c.Path, '\uFFFD') { // the engine could not write the name
			out.Unnamed++
			continue
		}
		kinds[c.Path] = c.Kind
		paths = append(paths, c.Path)
	}
	listable := environment.Leaves(paths)
	leaf := make(map[string]bool, len(listable))
	for _, path := range listable {
		leaf[path] = true
	}
	for _, path := range paths {
		if kinds[path] == container.ChangeDelete && !leaf[path] { // there is another directory in its place
			listable = append(listable, path)
		}
	}
	chosen, more := opts.Choose(listable)
	out.More = more
	image := ""
	if slices.ContainsFunc(chosen, func(path string) bool { return kinds[path] != container.ChangeAdd }) {
		if image, err = e.unstarted(ctx); image != "" {
			defer e.p.removeSoon(ctx, image)
		}
		if err != nil {
			return out, fmt.Errorf("make a container for the files of its image: %w", err)
		}
	}
	described := make([]environment.Change, len(chosen))
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(changesAtOnce)
	for i, path := range chosen {
		all.Go(func() (err error) {
			c := environment.Change{Path: path, Emptied: kinds[path] == container.ChangeDelete && !leaf[path]}
			if c.Emptied || kinds[path] != container.ChangeDelete {
				if c.After, err = e.p.fileState(ctx, e.id, path, opts.Text); err != nil {
					return err
				}
			}
			if kinds[path] != container.ChangeAdd {
				c.Before, err = e.p.fileState(ctx, image, path, opts.Text)
			}
			described[i] = c
			return err
		})
	}
	err = all.Wait()
	for _, c := range described {
		if c.Emptied || !c.Before.Same(c.After) {
			out.Files = append(out.Files, c)
		}
	}
	return out, err
}

// changesAtOnce is how many files are read at the same time: the engine prepares the container's
// file system for each.
const changesAtOnce = 8

// fileState describes a file of a container; nil if it is not there.
func (p *Provider) fileState(ctx context.Context, id, path string, text int64) (*environment.FileState, error) {
	archive, stat, err := copyOut(ctx, p, id, path)
	if cerrdefs.IsNotFound(err) {
		if _, lost := p.api.ContainerInspect(ctx, id); lost != nil {
			return nil, lost
		}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer archive.Close() // a directory and a large file are not read
	s := &environment.FileState{Mode: stat.Mode}
	link := stat.Mode&fs.ModeSymlink != 0
	if stat.Mode.IsRegular() {
		s.Size = stat.Size
	}
	if !link && (!stat.Mode.IsRegular() || s.Size > text) {
		return s, nil
	}
	files := tar.NewReader(archive)
	header, err := files.Next()
	switch {
	case err != nil:
		return nil, err
	case link:
		s.Link = header.Linkname // the engine's LinkTarget is resolved
	case header.Typeflag == tar.TypeReg && header.Size <= text:
		s.Size = header.Size
		s.Text, err = io.ReadAll(files)
	}
	return s, err
}

// unstarted creates a container of the image of e, which is never started.
func (e *containerEnv) unstarted(ctx context.Context) (id string, err error) {
	of, err := e.p.api.ContainerInspect(ctx, e.id)
	if err != nil {
		return "", err
	}
	longer, done := withGrace(ctx)
	defer done()
	made, err := e.p.api.ContainerCreate(longer, &container.Config{
		Image: of.Image, Cmd: environment.Idle(), Labels: of.Config.Labels, Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
	}, &container.HostConfig{NetworkMode: networkNone, LogConfig: logsOf(e.p.info)}, nil, nil, namePrefix+strings.ToLower(rand.Text()[:16]))
	return made.ID, err
}

// removeSoon removes a container, also after the end of ctx. If it cannot, the next run does.
func (p *Provider) removeSoon(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupGrace)
	defer cancel()
	_ = p.remove(ctx, id)
}

// maxChanges bounds the list of changed paths that an engine may answer, in bytes: agents can make
// millions of files.
const maxChanges = 64 << 20

var errManyChanges = errors.New("there are too many changed files to list")

// boundChanges bounds the answer to a request for the changes of a container.
func boundChanges(resp *http.Response) {
	if resp.Request != nil && strings.HasSuffix(resp.Request.URL.Path, "/changes") {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{&boundedReader{resp.Body, maxChanges}, resp.Body}
	}
}

// boundedReader is a reader that fails after a number of bytes.
type boundedReader struct {
	io.Reader
	left int
}

// Read implements io.Reader.
func (r *boundedReader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, errManyChanges
	}
	n, err := r.Reader.Read(p[:min(len(p), r.left)])
	r.left -= n
	return n, err
}
