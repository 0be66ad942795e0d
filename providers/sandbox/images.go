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

	"github.com/org/rollout-action/internal/environment"
)

// The kinds of what the store keeps, as they stand before the slash of an environment.Image's ID. They are folders of it.
const (
	keptImages = "images"
	keptLayers = "l"
	keptBases  = "bases"
)

// stepRecord begins the names of records that say which layer a step of a Dockerfile has made.
const stepRecord = "key-"

// touch notes that something of the store is used. What stands in the overlays' way is not touched: they lie deeper.
func (s *store) touch(elements ...string) {
	now := time.Now()
	_ = os.Chtimes(s.path(elements...), now, now) // what cannot be noted is used all the same
}

// touch notes that an image is used, and what it stands on.
func (p *Provider) touch(img *image, ref string) {
	p.store.touch(keptImages, recordName(ref))
	for _, id := range p.layersOf(img) {
		p.store.touch(keptLayers, id)
	}
	if img.Host != nil {
		p.store.touch(keptBases, img.Host.Key)
	}
}

// layersOf are the layers that an environment on an image uses.
func (p *Provider) layersOf(img *image) []string {
	layers := append(slices.Clone(img.Layers), p.scaffold)
	if p.aptLayer != "" {
		layers = append(layers, p.aptLayer)
	}
	return layers
}

// Images implements environment.ImageStore. They are the records of images (whose size is that of nothing), layers, and
// pictures of this machine.
func (p *Provider) Images(ctx context.Context) ([]environment.Image, error) {
	used, err := p.inUse()
	if err != nil {
		return nil, unlisted(err)
	}
	var all []environment.Image
	budget := maxMeasured
	for _, kind := range []string{keptImages, keptLayers, keptBases} {
		entries, err := os.ReadDir(p.store.path(kind))
		if err != nil {
			return nil, unlisted(err)
		}
		for _, entry := range entries {
			if strings.HasPrefix(entry.Name(), stepRecord) {
				continue // goes with its layer
			}
			info, err := entry.Info()
			if err != nil {
				continue // removed meanwhile
			}
			img := environment.Image{ID: kind + "/" + entry.Name(), Used: info.ModTime()}
			if img.InUse = used[img.ID]; kind == keptImages {
				p.describe(&img, entry.Name())
			} else {
				img.Name = map[string]string{keptLayers: "layer ", keptBases: "picture of this machine "}[kind] + entry.Name()
				img.Size = measure(ctx, p.store.path(kind, entry.Name()), &budget)
			}
			all = append(all, img)
		}
	}
	return all, ctx.Err()
}

func unlisted(err error) error {
	return &environment.Error{Kind: environment.KindUnavailable, Err: fmt.Errorf("list what sandboxes are made of: %w", err)}
}

// describe says what a record of an image stands for.
func (p *Provider) describe(listed *environment.Image, record string) {
	img := &image{}
	listed.Name = "image " + strings.TrimSuffix(record, ".json")
	if readJSON(p.store.path(keptImages, record), img) != nil {
		return // it is of no use
	}
	if img.Name != "" {
		listed.Name = img.Name
	}
	for _, id := range img.Layers {
		listed.Needs = append(listed.Needs, keptLayers+"/"+id)
	}
	if img.Host != nil {
		listed.Needs = append(listed.Needs, keptBases+"/"+img.Host.Key)
	}
}

// inUse are the IDs of what environments stand on, and what every new one would.
func (p *Provider) inUse() (map[string]bool, error) {
	used := map[string]bool{}
	for _, id := range p.layersOf(&image{}) {
		used[keptLayers+"/"+id] = true
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
		used[keptImages+"/"+m.Image], used[keptBases+"/"+m.Host] = true, true
		for _, id := range m.Layers {
			used[keptLayers+"/"+id] = true
		}
	}
	return used, nil
}

// RemoveImage implements environment.ImageStore.
func (p *Provider) RemoveImage(ctx context.Context, id string) error {
	kind, name, _ := strings.Cut(id, "/")
	if !slices.Contains([]string{keptImages, keptLayers, keptBases}, kind) || name != filepath.Base(name) || strings.HasPrefix(name, ".") {
		return nil // nothing here has this name
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	used, err := p.inUse()
	if err == nil && used[id] {
		err = errors.New("a sandbox uses it")
	}
	if err == nil {
		err = p.store.removeKept(kind, name)
	}
	if err != nil {
		return &environment.Error{Kind: environment.KindTeardown, Err: fmt.Errorf("remove %s: %w", id, err)}
	}
	return nil
}

// removeKept takes something out of sight at once, even if removing it takes a while or is interrupted.
func (s *store) removeKept(kind, name string) error {
	if kind == keptLayers {
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
	records, _ := filepath.Glob(s.path(keptImages, stepRecord+"*.json"))
	for _, record := range records {
		var id string
		if readJSON(record, &id) == nil && id == layer {
			_ = os.Remove(record) // one that stays names a layer that is not there, and is not believed
		}
	}
}

// maxMeasured bounds how many files are looked at to know how large things are.
const maxMeasured = 2_000_000

// measure is how many bytes a folder takes on disk, -1 if that is too much work or cannot be seen. It takes the files that
// it looked at from the budget.
func measure(ctx context.Context, dir string, budget *int) int64 {
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
