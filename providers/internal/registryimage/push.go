package registryimage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/distribution"
)

// keys matches valid values of PushOptions.Key, which becomes a tag.
var keys = regexp.MustCompile(`^[0-9a-f]{16,128}$`)

// Find returns the reference of the image that Push has put under a name and key, as Push returns
// it, or "" if there is none.
func (i *Images) Find(ctx context.Context, name, key string) (ref string, err error) {
	target, err := i.target(name, key)
	if err != nil {
		return "", err
	}
	digest, err := i.present(ctx, target)
	if err != nil || digest == "" {
		return "", err
	}
	return i.repository(name) + "@" + digest, nil
}

// Push pushes an image and returns REGISTRY/NAME@sha256:DIGEST. It does not look whether it is
// there: see Find. Layers of the base are not downloaded if the registry can take them from another
// of its repositories; layers that it has are not uploaded.
func (i *Images) Push(ctx context.Context, opts PushOptions) (ref string, err error) {
	target, err := i.target(opts.Name, opts.Key)
	if err != nil {
		return "", err
	}
	digest, err := i.pushTo(ctx, target, opts)
	if err != nil {
		return "", err
	}
	return i.repository(opts.Name) + "@" + digest, nil
}

func (i *Images) target(name, key string) (string, error) {
	if i.config.Registry == "" {
		return "", errNoRegistry()
	}
	if !keys.MatchString(key) {
		return "", fmt.Errorf("the key %q of an image is not 16 to 128 hexadecimal digits", key)
	}
	return i.repository(name) + ":" + key, nil
}

// pushTo pushes an image to a tag and returns its digest.
func (i *Images) pushTo(ctx context.Context, target string, opts PushOptions) (string, error) {
	doing := "push image " + target
	to, err := i.parse(target)
	if err != nil {
		return "", &environment.Error{Kind: environment.KindPull, Err: fmt.Errorf("%s: %w", doing, err)}
	}
	base := found{config: i.emptyConfig()}
	if opts.Base != "" {
		if base, err = i.find(ctx, opts.Base); err != nil {
			return "", fmt.Errorf("%s: %w", doing, err)
		}
	}
	img, release, err := assemble(ctx, base, opts)
	defer release()
	if err != nil {
		return "", fmt.Errorf("%s: %w", doing, err)
	}
	if opts.Progress != nil {
		opts.Progress("pushing " + target)
	}
	_, err = distribution.Attempt(ctx, i.client, to.Context().Registry, func() (struct{}, error) {
		return struct{}{}, remote.Write(to, img, i.client.Remote(ctx)...)
	})
	if err != nil {
		return "", refusedPush(ctx, doing, to.Context(), err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.known, target)
	return img.digest.String(), nil
}

// emptyConfig is the configuration of an image without a base.
func (i *Images) emptyConfig() []byte {
	config := map[string]any{
		"architecture": i.platform.Architecture, "os": i.platform.OS, "config": struct{}{},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{}},
	}
	if i.platform.Variant != "" {
		config["variant"] = i.platform.Variant
	}
	text, _ := json.Marshal(config) // strings can always be encoded
	return text
}

// image is a base with changes. It implements v1.Image, and keeps what of the base's configuration
// go-containerregistry does not know.
type image struct {
	layers      []v1.Layer
	manifest    *v1.Manifest
	rawManifest []byte
	rawConfig   []byte
	digest      v1.Hash
}

// assemble returns the image of opts. release must be called in the end, whether there is an error
// or not.
func assemble(ctx context.Context, base found, opts PushOptions) (img *image, release func(), err error) {
	var files []*spooled
	release = func() {
		for _, f := range files {
			_ = f.close() // it is only read
		}
	}
	img = &image{manifest: &v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: v1.Descriptor{MediaType: types.OCIConfigJSON}, Layers: []v1.Descriptor{},
	}}
	layerType := types.OCILayer
	if base.image != nil {
		if img.manifest, err = base.image.Manifest(); err != nil {
			return nil, release, err
		}
		img.manifest = img.manifest.DeepCopy()
		if img.layers, err = base.image.Layers(); err != nil {
			return nil, release, err
		}
		if img.manifest.MediaType == types.DockerManifestSchema2 {
			layerType = types.DockerLayer
		}
	}
	var diffIDs []v1.Hash
	for n, l := range opts.Layers {
		if opts.Progress != nil {
			opts.Progress(fmt.Sprintf("packing layer %d of %d", n+1, len(opts.Layers)))
		}
		f, err := spool(ctx, l, layerType)
		if err != nil {
			return nil, release, fmt.Errorf("pack layer %d: %w", n+1, err)
		}
		files = append(files, f)
		img.layers = append(img.layers, f)
		img.manifest.Layers = append(img.manifest.Layers, v1.Descriptor{MediaType: f.media, Size: f.size, Digest: f.digest})
		diffIDs = append(diffIDs, f.diffID)
	}
	if img.rawConfig, err = changeConfig(base.config, diffIDs, opts.Change); err != nil {
		return nil, release, err
	}
	err = img.seal()
	return img, release, err
}

// seal computes the manifest.
func (m *image) seal() error {
	digest, size, err := v1.SHA256(bytes.NewReader(m.rawConfig))
	if err != nil {
		return err
	}
	m.manifest.Config.Digest, m.manifest.Config.Size, m.manifest.Config.Data = digest, size, nil
	if m.rawManifest, err = json.Marshal(m.manifest); err != nil {
		return err
	}
	sum := sha256.New()
	sum.Write(m.rawManifest)
	m.digest = hashOf(sum)
	return nil
}

// changeConfig returns a configuration with more layers and other settings. Unknown fields are
// kept.
func changeConfig(raw []byte, diffIDs []v1.Hash, change func(*Settings)) ([]byte, error) {
	var file, config map[string]json.RawMessage
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, err
	}
	var rootFS v1.RootFS
	var history []json.RawMessage
	for key, into := range map[string]any{"rootfs": &rootFS, "history": &history, "config": &config} {
		if err := unmarshal(file[key], into); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	rootFS.Type, rootFS.DiffIDs = "layers", append(rootFS.DiffIDs, diffIDs...)
	for range diffIDs {
		history = append(history, json.RawMessage(`{"created_by":"rollout"}`))
	}
	if config == nil {
		config = map[string]json.RawMessage{}
	}
	if change != nil {
		settings, _, err := readConfig(raw)
		if err != nil {
			return nil, err
		}
		settings.Labels = maps.Clone(settings.Labels)
		change(&settings)
		if err := settings.write(config); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(set(file, "rootfs", rootFS), set(file, "history", history), set(file, "config", config)); err != nil {
		return nil, err
	}
	return json.Marshal(file) // with sorted keys
}

func unmarshal(raw json.RawMessage, into any) error {
	if raw == nil {
		return nil
	}
	return json.Unmarshal(raw, into)
}

func set(object map[string]json.RawMessage, key string, value any) error {
	text, err := json.Marshal(value)
	object[key] = text
	return err
}

// write puts the settings into the object "config" of a configuration. Source: the OCI image
// specification, config.md, and Docker's additions to it.
func (s Settings) write(config map[string]json.RawMessage) error {
	volumes := map[string]struct{}{}
	for _, v := range s.Volumes {
		volumes[v] = struct{}{}
	}
	var errs []error
	for _, field := range []struct {
		key   string
		value any
		none  bool
	}{
		{"Entrypoint", s.Entrypoint, len(s.Entrypoint) == 0},
		{"Cmd", s.Cmd, len(s.Cmd) == 0},
		{"Env", s.Env, len(s.Env) == 0},
		{"User", s.User, s.User == ""},
		{"WorkingDir", s.WorkingDir, s.WorkingDir == ""},
		{"Shell", s.Shell, len(s.Shell) == 0},
		{"Healthcheck", s.Healthcheck, s.Healthcheck == nil},
		{"Labels", s.Labels, len(s.Labels) == 0},
		{"Volumes", volumes, len(volumes) == 0},
	} {
		if field.none {
			delete(config, field.key)
			continue
		}
		errs = append(errs, set(config, field.key, field.value))
	}
	return errors.Join(errs...)
}

var _ v1.Image = (*image)(nil)

// Layers implements v1.Image.
func (m *image) Layers() ([]v1.Layer, error) { return m.layers, nil }

// MediaType implements v1.Image.
func (m *image) MediaType() (types.MediaType, error) { return m.manifest.MediaType, nil }

// Size implements v1.Image.
func (m *image) Size() (int64, error) { return int64(len(m.rawManifest)), nil }

// ConfigName implements v1.Image.
func (m *image) ConfigName() (v1.Hash, error) { return m.manifest.Config.Digest, nil }

// ConfigFile implements v1.Image.
func (m *image) ConfigFile() (*v1.ConfigFile, error) {
	return v1.ParseConfigFile(bytes.NewReader(m.rawConfig))
}

// RawConfigFile implements v1.Image.
func (m *image) RawConfigFile() ([]byte, error) { return m.rawConfig, nil }

// Digest implements v1.Image.
func (m *image) Digest() (v1.Hash, error) { return m.digest, nil }

// Manifest implements v1.Image.
func (m *image) Manifest() (*v1.Manifest, error) { return m.manifest, nil }

// RawManifest implements v1.Image.
func (m *image) RawManifest() ([]byte, error) { return m.rawManifest, nil }

// LayerByDigest implements v1.Image. The configuration counts as one.
func (m *image) LayerByDigest(digest v1.Hash) (v1.Layer, error) {
	if digest == m.manifest.Config.Digest {
		return static.NewLayer(m.rawConfig, m.manifest.Config.MediaType), nil
	}
	for n, d := range m.manifest.Layers {
		if d.Digest == digest {
			return m.layers[n], nil
		}
	}
	return nil, fmt.Errorf("there is no layer %s", digest)
}

// LayerByDiffID implements v1.Image.
func (m *image) LayerByDiffID(diffID v1.Hash) (v1.Layer, error) {
	digest, err := partial.DiffIDToBlob(m, diffID)
	if err != nil {
		return nil, err
	}
	return m.LayerByDigest(digest)
}
