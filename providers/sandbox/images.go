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
	"syscall"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
)

// The kinds of entries in the store: the parts of an environment.Image's ID before the slash, and
// directories of the store.
const (
	kindImages = "images"
	kindLayers = "l"
	kindBases  = "bases"
)

// stepRecordPrefix begins the names of the records that name the layer of a Dockerfile's step.
const stepRecordPrefix = "key-"

// touch records the use of an entry of the store. It sets the time of the directory above those
// that overlays mount, so it does not affect them. It ignores errors: using an entry does not
// depend on the record.
func (s *store) touch(elements ...string) {
	now := time.Now()
	_ = os.Chtimes(s.path(elements...), now, now) // see above
}

// touch records the use of an image with its layers and base.
func (p *Provider) touch(img *image, ref string) {
	p.store.touch(kindImages, recordName(ref))
	for _, id := range p.layersOf(img) {
		p.store.touch(kindLayers, id)
	}
	if img.Host != nil {
		p.store.touch(kindBases, img.Host.Key)
	}
}

// layersOf returns the layers of the environments on an image.
func (p *Provider) layersOf(img *image) []string {
	layers := append(slices.Clone(img.Layers), p.commonLayer)
	if p.aptLayer != "" {
		layers = append(layers, p.aptLayer)
	}
	return layers
}

// Images implements environment.ImageStore. It lists the records of images, which have no size, the
// layers and the bases.
func (p *Provider) Images(ctx context.Context) ([]environment.Image, error) {
	used, err := p.inUse()
	if err != nil {
		return nil, listFailed(err)
	}
	var all []environment.Image
	budget := maxFilesMeasured
	for _, kind := range []string{kindImages, kindLayers, kindBases} {
		entries, err := os.ReadDir(p.store.path(kind))
		if err != nil {
			return nil, listFailed(err)
		}
		for _, entry := range entries {
			if strings.HasPrefix(entry.Name(), stepRecordPrefix) {
				continue // removed with its layer
			}
			info, err := entry.Info()
			if err != nil {
				continue // removed meanwhile
			}
			img := environment.Image{ID: kind + "/" + entry.Name(), Used: info.ModTime()}
			if img.InUse = used[img.ID]; kind == kindImages {
				p.describeRecord(&img, entry.Name())
			} else {
				img.Name = map[string]string{kindLayers: "layer ", kindBases: "copy of this machine's configuration "}[kind] + entry.Name()
				img.Size = diskUsage(ctx, p.store.path(kind, entry.Name()), &budget)
			}
			all = append(all, img)
		}
	}
	return all, ctx.Err()
}

func listFailed(err error) error {
	return &environment.Error{Kind: environment.KindUnavailable, Err: fmt.Errorf("list images: %w", err)}
}

// describeRecord sets the name and needs of an image's record.
func (p *Provider) describeRecord(listed *environment.Image, record string) {
	img := &image{}
	listed.Name = "image " + strings.TrimSuffix(record, ".json")
	if readJSON(p.store.path(kindImages, record), img) != nil {
		return // unusable
	}
	if img.Name != "" {
		listed.Name = img.Name
	}
	for _, id := range img.Layers {
		listed.Needs = append(listed.Needs, kindLayers+"/"+id)
	}
	if img.Host != nil {
		listed.Needs = append(listed.Needs, kindBases+"/"+img.Host.Key)
	}
}

// inUse returns the IDs of the entries that environments use or every new one would use.
func (p *Provider) inUse() (map[string]bool, error) {
	used := map[string]bool{}
	for _, id := range p.layersOf(&image{}) {
		used[kindLayers+"/"+id] = true
	}
	entries, err := os.ReadDir(p.store.path("env"))
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		var m meta
		if readJSON(p.store.path("env", entry.Name(), "meta.json"), &m) != nil {
			continue // being removed
		}
		used[kindImages+"/"+m.Image], used[kindBases+"/"+m.Host] = true, true
		for _, id := range m.Layers {
			used[kindLayers+"/"+id] = true
		}
	}
	return used, nil
}

// RemoveImage implements environment.ImageStore.
func (p *Provider) RemoveImage(ctx context.Context, id string) error {
	kind, name, _ := strings.Cut(id, "/")
	if !slices.Contains([]string{kindImages, kindLayers, kindBases}, kind) || name != filepath.Base(name) || strings.HasPrefix(name, ".") {
		return nil // no such entry
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	used, err := p.inUse()
	if err == nil && used[id] {
		err = errors.New("a sandbox uses it")
	}
	if err == nil {
		err = p.store.removeStored(kind, name)
	}
	if err != nil {
		return &environment.Error{Kind: environment.KindTeardown, Err: fmt.Errorf("remove %s: %w", id, err)}
	}
	return nil
}

// removeStored moves an entry out of the store at once, even if removing its files takes long or is
// interrupted.
func (s *store) removeStored(kind, name string) error {
	if kind == kindLayers {
		s.forgetStep(name)
	}
	d, err := s.draft()
	if err != nil {
		return err
	}
	defer d.discard()
	err = os.Rename(s.path(kind, name), filepath.Join(d.dir, "removed"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// forgetStep removes the records that name a layer as a step's.
func (s *store) forgetStep(layer string) {
	records, _ := filepath.Glob(s.path(kindImages, stepRecordPrefix+"*.json"))
	for _, record := range records {
		var id string
		if readJSON(record, &id) == nil && id == layer {
			_ = os.Remove(record) // a record of a missing layer is ignored
		}
	}
}

// maxFilesMeasured bounds how many files Images examines to compute sizes.
const maxFilesMeasured = 2_000_000

// diskUsage returns the bytes that a directory takes on disk. It subtracts each file from budget.
// It returns -1 if budget is used up or a file cannot be read.
func diskUsage(ctx context.Context, dir string, budget *int) int64 {
	var sum int64
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if *budget--; *budget < 0 {
			return fs.ErrInvalid
		}
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && (stat.Nlink == 1 || entry.IsDir()) {
			sum += stat.Blocks * 512
		} else if ok {
			sum += stat.Blocks * 512 / int64(stat.Nlink)
		}
		return nil
	})
	if err != nil {
		return -1
	}
	return sum
}
