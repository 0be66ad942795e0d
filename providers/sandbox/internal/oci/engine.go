package oci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
)

// Engine has the methods of a Docker engine that Find calls. *client.Client implements it.
type Engine interface {
	// ImageInspect describes an image of the engine's store.
	ImageInspect(ctx context.Context, ref string, opts ...client.ImageInspectOption) (image.InspectResponse, error)
	// ImageSave returns an archive of images.
	ImageSave(ctx context.Context, refs []string, opts ...client.ImageSaveOption) (io.ReadCloser, error)
}

// engineStore names an engine's store in messages.
const engineStore = "the Docker engine's store"

// enginePlace returns the place that searches an engine's store.
func enginePlace(engine Engine, ref, tempDir string) place {
	return place{name: engineStore, find: func(ctx context.Context) (*Image, error) {
		found, err := engine.ImageInspect(ctx, ref)
		if err != nil {
			return nil, engineError(err)
		}
		return engineImage(engine, found, tempDir)
	}}
}

// engineError returns an error of the engine as a placeError with its kind.
func engineError(err error) error {
	a := &placeError{place: engineStore, text: err.Error(), err: err}
	switch {
	case errdefs.IsNotFound(err), errdefs.IsInvalidArgument(err): // no name for it: not found
		a.kind, a.text = ErrNotFound, "not there"
	case client.IsErrConnectionFailed(err), errdefs.IsInternal(err), errdefs.IsUnavailable(err):
		a.kind = ErrUnreachable
	}
	return a
}

// engineImage returns an image of an engine. The image is saved when its first layer is opened.
func engineImage(engine Engine, found image.InspectResponse, tempDir string) (*Image, error) {
	config := Config{OS: found.Os, Architecture: found.Architecture}
	if found.Config != nil {
		config.Env, config.WorkingDir, config.User = slices.Clone(found.Config.Env), found.Config.WorkingDir, found.Config.User
		config.Entrypoint, config.Shell, config.Healthcheck = slices.Clone(found.Config.Entrypoint), found.Config.Shell, found.Config.Healthcheck
	}
	if err := config.checkPlatform(); err != nil {
		return nil, asPlaceError(engineStore, err)
	}
	s := &savedArchive{engine: engine, id: found.ID, tempDir: tempDir}
	out := &Image{ID: found.ID, Source: engineStore, Config: config, close: s.remove}
	for _, diffID := range found.RootFS.Layers {
		out.Layers = append(out.Layers, Layer{DiffID: diffID, Open: func(ctx context.Context) (io.ReadCloser, error) {
			return s.layer(ctx, diffID)
		}})
	}
	return out, nil
}

// savedArchive is the archive of an engine's image, saved on first use.
type savedArchive struct {
	engine  Engine
	id      string
	tempDir string

	mu     sync.Mutex
	file   string           // "": not yet
	layers map[string]Layer // layers in file, by DiffID
	closed bool
}

func (s *savedArchive) layer(ctx context.Context, diffID string) (io.ReadCloser, error) {
	layer, err := s.find(ctx, diffID)
	if err != nil {
		return nil, fmt.Errorf("save image %s from %s: %w", s.id, engineStore, err)
	}
	return layer.Open(ctx)
}

// find returns a layer. It saves the image first if necessary.
func (s *savedArchive) find(ctx context.Context, diffID string) (Layer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return Layer{}, errors.New("the image is closed")
	}
	if s.file == "" {
		if err := s.save(ctx); err != nil {
			return Layer{}, err
		}
	}
	layer, ok := s.layers[diffID]
	if !ok {
		return Layer{}, fmt.Errorf("the archive lacks the layer %s", diffID)
	}
	return layer, nil
}

// save writes the archive. The caller holds mu.
func (s *savedArchive) save(ctx context.Context) error {
	file, err := s.download(ctx)
	if err != nil {
		return err
	}
	layers, err := layersOf(file)
	if err != nil {
		return errors.Join(err, os.Remove(file))
	}
	s.file, s.layers = file, layers
	return nil
}

func (s *savedArchive) download(ctx context.Context) (file string, err error) {
	from, err := s.engine.ImageSave(ctx, []string{s.id})
	if err != nil {
		return "", engineError(err)
	}
	defer from.Close()
	to, err := os.CreateTemp(s.tempDir, "image-*.tar")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(to, from)
	if err = errors.Join(err, to.Close()); err != nil {
		return "", errors.Join(err, os.Remove(to.Name()))
	}
	return to.Name(), nil
}

// layersOf returns the layers of all images in an archive that are for this machine, by DiffID.
func layersOf(file string) (map[string]Layer, error) {
	s, err := openStore(file)
	if err != nil {
		return nil, err
	}
	_, found, err := s.candidates()
	if err != nil {
		return nil, err
	}
	out := map[string]Layer{}
	for _, c := range found {
		loaded, err := c.load()
		if errors.Is(err, ErrPlatform) || errors.Is(err, fs.ErrNotExist) {
			continue // engines with containerd's store save only the platforms that they have
		}
		if err != nil {
			return nil, err
		}
		for _, l := range loaded.Layers {
			out[l.DiffID] = l
		}
	}
	return out, nil
}

// remove removes the archive. Later calls of layer fail.
func (s *savedArchive) remove() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.file == "" {
		return nil
	}
	file := s.file
	s.file = ""
	return os.Remove(file)
}
