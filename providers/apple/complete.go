package apple

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/registryimage"
)

// maxDocument bounds a manifest or the configuration of an image.
const maxDocument = 4 << 20

// complete adds the settings to an image that the command does not show: HEALTHCHECK and VOLUME. It
// has the image saved, which takes time, and remembers the result.
func (p *Provider) complete(ctx context.Context, ref string, i *image) error {
	p.mu.Lock()
	known, ok := p.settings[i.digest]
	p.mu.Unlock()
	if ok {
		i.settings = known
		return nil
	}
	err := p.flights.Do(ctx, "save "+i.digest, nil, func(ctx context.Context, _ func(string)) error {
		settings, err := p.saved(ctx, ref)
		if err != nil {
			return p.failed(ctx, environment.KindStart, "read the settings of image "+ref, err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.settings[i.digest] = settings
		return nil
	})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	i.settings = p.settings[i.digest]
	return nil
}

// saved reads the settings of an image from its archive.
func (p *Provider) saved(ctx context.Context, ref string) (registryimage.Settings, error) {
	dir, err := os.MkdirTemp("", "rollout-image-")
	if err != nil {
		return registryimage.Settings{}, environment.MarkMachineError(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "image.tar")
	if _, err := p.command.run(ctx, 2, nil, "image", "save", "--platform", p.config.platform, "--output", file, ref); err != nil {
		return registryimage.Settings{}, err
	}
	archive, err := os.Open(file) // #nosec G304 -- made here
	if err != nil {
		return registryimage.Settings{}, err
	}
	defer archive.Close()
	documents, err := readDocuments(archive)
	if err != nil {
		return registryimage.Settings{}, fmt.Errorf("read the archive of the image: %w", err)
	}
	return settingsOf(documents)
}

// readDocuments returns the small files of an archive, which are all but layers, by their names.
func readDocuments(archive io.Reader) (map[string][]byte, error) {
	documents := map[string][]byte{}
	total := 0
	for r := tar.NewReader(archive); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, err
		}
		if header.Typeflag != tar.TypeReg || header.Size > maxDocument {
			continue
		}
		if total += int(header.Size); total > 16*maxDocument {
			return nil, errors.New("it has too many files")
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		documents[path.Clean(header.Name)] = content
	}
}

// descriptor refers to a document of an archive.
type descriptor struct {
	Digest string `json:"digest"`
}

// settingsOf follows an archive's index to the configuration of its only image.
// Source: https://github.com/opencontainers/image-spec/blob/v1.1.0/image-layout.md.
func settingsOf(documents map[string][]byte) (registryimage.Settings, error) {
	next := documents["index.json"]
	for range 4 { // an index of indexes, a manifest
		var document struct {
			Manifests []descriptor `json:"manifests"`
			Config    *descriptor  `json:"config"`
		}
		if err := json.Unmarshal(next, &document); err != nil {
			return registryimage.Settings{}, fmt.Errorf("read the archive of the image: %w", err)
		}
		switch {
		case document.Config != nil:
			return registryimage.ParseSettings(documents[blob(*document.Config)])
		case len(document.Manifests) == 0:
			return registryimage.Settings{}, errors.New("the archive of the image has no manifest")
		}
		for _, m := range document.Manifests { // others are those of other platforms, which it lacks
			if content := documents[blob(m)]; content != nil {
				next = content
				break
			}
		}
	}
	return registryimage.Settings{}, errors.New("the archive of the image has no configuration")
}

func blob(d descriptor) string {
	algorithm, digest, _ := strings.Cut(d.Digest, ":")
	return path.Join("blobs", algorithm, digest)
}
