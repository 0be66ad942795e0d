package kubernetes

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/initwire"
	"github.com/org/rollout-action/providers/internal/registryimage"
)

const (
	// layerName is the last part of the name that all agent layers have in the registry. Their tags
	// are their keys.
	layerName = "rollout-layer"
	// labelDescription is a label of the image.
	labelDescription = "rollout.description"
	// maxLayer bounds the files of a layer, in bytes: a sparse file can be of any size.
	maxLayer = 64 << 30
	// whiteout begins the name of an entry that removes a file. Source: the OCI image
	// specification, layer.md.
	whiteout = ".wh."
)

// errNoLayers is the error for layers without a registry.
var errNoLayers = fmt.Errorf("environment.provider_config.registry is not set, where nodes would pull the image with the agent from: %w", errors.ErrUnsupported)

// layerRef returns the reference of the image with a key.
func (p *Provider) layerRef(key string) string {
	return p.config.registry + "/" + layerName + ":" + key
}

// FindSnapshot implements environment.Snapshotter.
func (p *Provider) FindSnapshot(ctx context.Context, key string) (ref, description string, err error) {
	if p.config.registry == "" {
		return "", "", errNoLayers
	}
	ref = p.layerRef(key)
	image, err := p.images.Config(ctx, ref)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission): // as some registries say of repositories that do not exist
		return "", "", nil
	case err != nil:
		return "", "", wrapped(environment.KindUnavailable, "look for image "+ref, err)
	}
	return ref, image.Labels[labelDescription], nil
}

// lockPoll is the interval at which a lock that another process holds is tried.
const lockPoll = 50 * time.Millisecond

// LockSnapshot implements environment.Snapshotter: processes of this user on this machine keep each
// other out. Others may make the same image, and the last one is kept.
func (p *Provider) LockSnapshot(ctx context.Context, key string) (func(), error) {
	if p.config.registry == "" {
		return nil, errNoLayers
	}
	dir, err := os.UserCacheDir()
	if err == nil {
		dir = filepath.Join(dir, "rollout", "layers")
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil { // a machine without a place for locks has none
		return func() {}, ctx.Err()
	}
	held := flock.New(filepath.Join(dir, key[:2]+".lock"))
	if _, err := held.TryLockContext(ctx, lockPoll); err != nil {
		return nil, fmt.Errorf("lock %s: %w", held.Path(), err)
	}
	return func() { _ = held.Unlock() }, nil
}

// Snapshot implements environment.Snapshottable: all processes end, and the files in which the
// environment differs from its image are pushed as a layer on it.
func (e *podEnv) Snapshot(ctx context.Context, opts environment.SnapshotOptions) (string, error) {
	if e.p.config.registry == "" {
		return "", errNoLayers
	}
	defer e.Close()
	defer e.ended.Store(true)
	ref, err := e.snapshot(ctx, opts)
	if err == nil {
		return ref, nil
	}
	err = fmt.Errorf("keep pod %s as an image: %w", e.name, err)
	kind := environment.KindOf(err)
	if ctx.Err() != nil || kind == environment.KindLost || kind == environment.KindUnavailable {
		return "", err
	}
	return "", &environment.Error{Kind: environment.KindSnapshot, Err: err}
}

func (e *podEnv) snapshot(ctx context.Context, opts environment.SnapshotOptions) (string, error) {
	if e.variables {
		return "", errors.New("it was created with variables, and images must not have them")
	}
	if len(e.image.Volumes) > 0 {
		return "", fmt.Errorf("its image has a VOLUME at %s, whose files are not a part of images", e.image.Volumes[0])
	}
	if err := e.KillAll(ctx); err != nil {
		return "", err
	}
	var l layer
	err := e.withOriginal(ctx, func(original inContainer) error { return compare(ctx, original, e, l.visit) })
	if err != nil {
		return "", err
	}
	_, err = e.p.images.Push(ctx, registryimage.PushOptions{
		Base: e.image.Ref, Name: layerName, Key: opts.Key,
		Layers: []registryimage.Layer{{Open: func(ctx context.Context) (io.ReadCloser, error) {
			r, w := io.Pipe()
			go func() { w.CloseWithError(l.write(ctx, e, w, opts.Inspect)) }()
			return r, nil
		}}},
		Change: func(s *registryimage.Settings) {
			if s.Labels == nil {
				s.Labels = map[string]string{}
			}
			s.Labels[labelDescription] = opts.Description
		},
	})
	return e.p.layerRef(opts.Key), err
}

// layer holds the changes of an environment.
type layer struct {
	files []string // with the directories above them: some runtimes would make those anew
	gone  []string
	size  int64
}

// visit adds a difference that compare found.
func (l *layer) visit(before, after *initwire.File) error {
	switch {
	case !differs(before, after):
		return nil
	case len(l.files)+len(l.gone) >= maxChanges:
		return errManyChanges
	case after == nil:
		l.gone = append(l.gone, string(before.Path))
		l.addParents(string(before.Path))
		return nil
	case strings.HasPrefix(path.Base(string(after.Path)), whiteout):
		return fmt.Errorf("a file is called /%s: in images, such a name removes another file", after.Path)
	case kindOfFile(after) == 0:
		if l.size += after.Size; l.size > maxLayer {
			return fmt.Errorf("the files that were changed have more than %d GiB", int64(maxLayer)>>30)
		}
	}
	l.addParents(string(after.Path))
	l.files = append(l.files, string(after.Path))
	return nil
}

// addParents adds the directories above a path that are not there yet.
func (l *layer) addParents(of string) {
	last := ""
	if len(l.files) > 0 {
		last = l.files[len(l.files)-1] + "/"
	}
	for _, dir := range parents(of) {
		if !strings.HasPrefix(last, dir+"/") {
			l.files = append(l.files, dir)
		}
	}
}

// write writes the layer as a tar archive. inspect may be nil.
func (l *layer) write(ctx context.Context, from inContainer, w io.Writer, inspect func(*tar.Header, io.Reader) error) error {
	archive := tar.NewWriter(w)
	err := from.PackFiles(ctx, slices.Values(l.files), func(packed io.Reader) error {
		for files := tar.NewReader(packed); ; {
			header, err := files.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err == nil {
				err = archive.WriteHeader(header)
			}
			if err == nil {
				err = copyInspected(archive, header, files, inspect)
			}
			if err != nil {
				return err
			}
		}
	})
	if err != nil {
		return err
	}
	for _, name := range l.gone {
		dir, base := path.Split(name)
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: dir + whiteout + base, Format: tar.FormatPAX}); err != nil {
			return err
		}
	}
	return archive.Close()
}

// copyInspected copies the content of a file whose header was written, and shows it to inspect.
func copyInspected(to io.Writer, header *tar.Header, content io.Reader, inspect func(*tar.Header, io.Reader) error) error {
	if inspect != nil {
		seen := *header
		seen.Name = "/" + strings.TrimSuffix(header.Name, "/")
		if header.Typeflag == tar.TypeLink {
			seen.Linkname = "/" + header.Linkname
		}
		if err := inspect(&seen, io.TeeReader(content, to)); err != nil {
			return err
		}
	}
	_, err := io.Copy(to, content)
	return err
}
