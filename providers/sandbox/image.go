//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/initwire"
)

// image is a root file system from which sandboxes start, with its configuration.
type image struct {
	ID      string   `json:"id"`             // of the content
	Name    string   `json:"name,omitempty"` // for display
	Layers  []string `json:"layers"`         // of the store, bottom first
	Env     []string `json:"env"`            // KEY=value
	WorkDir string   `json:"work_dir"`
	User    string   `json:"user"`
	Volumes []string `json:"volumes,omitempty"` // sorted
	// Form is recordForm; a record of another form lacks something.
	Form        int                           `json:"form"`
	Entrypoint  []string                      `json:"entrypoint,omitempty"`
	Shell       []string                      `json:"shell,omitempty"`
	Healthcheck *dockerspec.HealthcheckConfig `json:"healthcheck,omitempty"`
	// Origin is the digest reference of a registry's image with the first OriginLayers of the
	// layers, or "".
	Origin       string `json:"origin,omitempty"`
	OriginLayers int    `json:"origin_layers,omitempty"`
	// Host is set if the layers are on this machine's root.
	Host *hostBase `json:"host,omitempty"`
	// Base is set if the image is not the requested one.
	Base *environment.Base `json:"base,omitempty"`
}

// recordForm is the form of an image's record. Form 1 has ENTRYPOINT, SHELL and HEALTHCHECK, form 2
// VOLUME, too.
const recordForm = 2

// readImage reads the record of an image. It treats a record of another form as missing, so the
// image is made again.
func (p *Provider) readImage(ref string) (*image, error) {
	img := &image{}
	if err := readJSON(p.imageFile(ref), img); err != nil {
		return nil, err
	}
	if img.Form != recordForm {
		return nil, fmt.Errorf("the record has form %d, not %d: %w", img.Form, recordForm, fs.ErrNotExist)
	}
	return img, p.store.complete(img)
}

// recordImage writes the record of an image.
func (p *Provider) recordImage(ref string, img *image) error {
	img.Form = recordForm
	return p.store.record(p.imageFile(ref), img)
}

// hostEnv has the environment variables of sandboxes on this machine's root. pip refuses to install
// into the system's directories of the machine; in a sandbox it must not.
var hostEnv = []string{"PIP_BREAK_SYSTEM_PACKAGES=1", "PIP_ROOT_USER_ACTION=ignore"}

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// hostPath returns PATH for this machine's root: the usual directories, and those of this process's
// PATH that sandboxes show.
func hostPath(parts []hostPart, path string) string {
	dirs := strings.Split(defaultPath, ":")
	for _, dir := range filepath.SplitList(path) {
		dir = filepath.Clean(dir)
		isShown := environment.Within(dir, "/opt") || slices.ContainsFunc(parts, func(p hostPart) bool { return environment.Within(dir, p.At) })
		if isShown && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return strings.Join(dirs, ":")
}

// builtPrefix begins the references of images that were built here. No registry has such names.
const builtPrefix = "rollout.sandbox/"

// image returns the image that a reference names. It passes lines for the user to progress, if not
// nil.
func (p *Provider) image(ctx context.Context, ref string, progress func(string)) (*image, error) {
	if strings.HasPrefix(ref, builtPrefix) {
		img, err := p.builtImage(ref)
		if err == nil {
			p.touch(img, ref)
		}
		return img, err
	}
	if progress == nil {
		progress = func(string) {}
	}
	find := func(ctx context.Context) (*image, error) { return p.resolve(ctx, ref, progress) }
	img, err := p.resolved.get(ctx, ref, find)
	if err == nil && p.store.complete(img) != nil { // it was removed meanwhile
		p.resolved.forget(ref)
		img, err = p.resolved.get(ctx, ref, find)
	}
	if err == nil {
		p.touch(img, ref)
	}
	return img, err
}

// builtImage reads the record of an image that was built here. It returns environment.ErrNoImage if
// a part of the image is missing.
func (p *Provider) builtImage(ref string) (*image, error) {
	img, err := p.readImage(ref)
	if err == nil {
		return img, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, &environment.Error{Kind: environment.KindStart, Err: fmt.Errorf("read the record of image %s: %w", ref, err)}
	}
	return nil, &environment.Error{Kind: environment.KindStart, Err: fmt.Errorf("%s: %w", ref, environment.ErrNoImage)}
}

func (p *Provider) imageFile(ref string) string { return p.store.path("images", recordName(ref)) }

// recordName returns the name of a reference's record in images/.
func recordName(ref string) string { return digest(ref) + ".json" }

// complete returns an error if a part of an image is not in the store.
func (s *store) complete(img *image) error {
	for _, id := range img.Layers {
		if _, err := os.Stat(s.path("l", id)); err != nil {
			return err
		}
	}
	if img.Host != nil {
		if _, err := os.Stat(s.path("bases", img.Host.Key)); err != nil {
			return err
		}
	}
	return nil
}

// hostImage returns this machine's root as an image, in place of the requested one.
func (p *Provider) hostImage(ctx context.Context, requested, reason string, progress func(string)) (*image, error) {
	base, err := p.store.hostBase(ctx, progress)
	if err != nil {
		return nil, startFailed(ctx, err)
	}
	return &image{
		ID:   "host " + base.Key,
		Env:  append(slices.Clone(hostEnv), "PATH="+hostPath(base.Parts, os.Getenv("PATH"))),
		Host: base,
		Base: &environment.Base{Requested: requested, Actual: "this machine's root, copy-on-write: " + base.OS, Reason: reason, Asked: p.config.base == baseHost},
	}, nil
}

// mounts returns the overlays of a new sandbox. Its changes are stored below changes, a path in the
// store.
func (p *Provider) mounts(img *image, changes string) []initwire.Mount {
	root := initwire.Mount{At: "/", Lower: p.store.layers(img.Layers, rootPart)}
	if img.Host != nil {
		root.Lower = append(root.Lower, filepath.Join("bases", img.Host.Key, rootPart))
	}
	over := []string{filepath.Join("l", p.commonLayer, rootPart)}
	if p.aptLayer != "" && slices.ContainsFunc(root.Lower, func(dir string) bool { return exists(p.store.path(dir, aptConfiguration)) }) {
		over = append(over, filepath.Join("l", p.aptLayer, rootPart))
	}
	root.Lower = append(over, root.Lower...)
	mounts := []initwire.Mount{root}
	if img.Host != nil {
		for _, part := range img.Host.Parts {
			if slices.ContainsFunc(p.opts.Hide, func(path string) bool { return environment.Within(part.Host, path) }) {
				continue // the whole part is hidden
			}
			m := initwire.Mount{At: part.At, Lower: p.store.layers(img.Layers, part.part())}
			if own := filepath.Join("bases", img.Host.Key, part.part()); exists(p.store.path(own)) {
				m.Lower = append(m.Lower, own)
			}
			m.Lower = append(m.Lower, part.Host)
			mounts = append(mounts, m)
		}
	}
	for i := range mounts {
		name := partName(mounts[i].At)
		mounts[i].Upper = filepath.Join(changes, "up", name)
		mounts[i].Work = filepath.Join(changes, "work", name)
	}
	return mounts
}

// partName returns the name of a mount's directory in layers.
func partName(at string) string {
	if at == "/" {
		return rootPart
	}
	return hostPart{At: at}.part()
}

// layers returns the directories of the layers that change a part, top first. It leaves out the
// layers below an opaque one.
func (s *store) layers(ids []string, part string) []string {
	var dirs []string
	for _, id := range slices.Backward(ids) {
		if dir := filepath.Join("l", id, part); exists(s.path(dir)) {
			dirs = append(dirs, dir)
		}
		if exists(s.path("l", id, opaqueMark)) {
			break
		}
	}
	return dirs
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
