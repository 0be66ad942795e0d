package docker

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"

	"github.com/org/rollout-action/internal/core/environment"
)

// Images implements environment.ImageStore: all with Rollout's label, which builds and snapshots
// have and pulled images have not.
func (p *Provider) Images(ctx context.Context) ([]environment.Image, error) {
	all, err := p.api.ImageList(ctx, image.ListOptions{All: false, SharedSize: true})
	if err != nil {
		return nil, failed(environment.KindUnavailable, "list images", err)
	}
	used, err := p.usedImages(ctx)
	if err != nil {
		return nil, err
	}
	sizes := map[string]int64{}
	for _, i := range all {
		sizes[i.ID] = i.Size
		if i.Labels[labelOutcome] != "" {
			used[i.Labels[labelBase]] = true
		}
	}
	var list []environment.Image
	for _, i := range all {
		if _, ours := i.Labels[environment.LabelJob]; !ours || i.Labels[labelOutcome] != "" { // List has outcomes
			continue
		}
		listed := environment.Image{ID: i.ID, Name: nameOf(i), Size: i.Size, Used: lastUse(i), InUse: used[i.ID]}
		under := cmp.Or(i.Labels[labelBase], i.ParentID)
		if shared, known := sizes[under]; known {
			listed.Needs, listed.Size = []string{under}, i.Size-shared
		}
		if i.SharedSize >= 0 { // engines since API 1.42 tell
			listed.Size = i.Size - i.SharedSize
		}
		list = append(list, listed)
	}
	return list, nil
}

// usedImages returns the ids of the images of all containers, also of those that Rollout has not
// created.
func (p *Provider) usedImages(ctx context.Context) (map[string]bool, error) {
	containers, err := listContainers(ctx, p.api)
	if err != nil {
		return nil, failed(environment.KindUnavailable, "list containers", err)
	}
	used := map[string]bool{}
	for _, c := range containers {
		used[c.ImageID] = true
	}
	return used, nil
}

// nameOf returns the name of an image for users.
func nameOf(i image.Summary) string {
	name := "a replaced build"
	tags := slices.DeleteFunc(slices.Clone(i.RepoTags), func(tag string) bool { return tag == "<none>:<none>" }) // as old engines say
	if len(tags) > 0 {
		name = slices.Min(tags)
	}
	if about := i.Labels[labelDescription]; about != "" {
		name += " (" + about + ")"
	}
	return name
}

// RemoveImage implements environment.ImageStore. An image with a tag that is not ours stays.
func (p *Provider) RemoveImage(ctx context.Context, id string) error {
	doing := "remove image " + id
	found, err := p.api.ImageInspect(ctx, id)
	if cerrdefs.IsNotFound(err) || cerrdefs.IsInvalidArgument(err) {
		return nil
	}
	if err != nil {
		return failed(environment.KindUnavailable, doing, err)
	}
	if found.Config == nil || found.Config.Labels[environment.LabelJob] == "" {
		return &environment.Error{Kind: environment.KindTeardown, Err: fmt.Errorf("%s: it was not made by rollout", doing)}
	}
	using, err := listContainers(ctx, p.api, filters.Arg("ancestor", found.ID))
	if err != nil {
		return failed(environment.KindUnavailable, doing, err)
	}
	if len(using) > 0 {
		return &environment.Error{Kind: environment.KindTeardown, Err: fmt.Errorf("%s: container %.12s uses it", doing, using[0].ID)}
	}
	_, err = p.api.ImageRemove(ctx, found.ID, image.RemoveOptions{PruneChildren: true})
	if err != nil && !cerrdefs.IsNotFound(err) {
		return failed(environment.KindTeardown, doing, err)
	}
	for _, tag := range found.RepoTags {
		forgetUse(tag)
	}
	return nil
}

// Disk implements environment.LocalDisk: the engine's directory, if the engine is this machine's
// and the directory can be seen from here.
func (p *Provider) Disk() string {
	if !strings.HasPrefix(p.api.DaemonHost(), "unix://") || p.info.DockerRootDir == "" {
		return ""
	}
	if info, err := os.Stat(p.info.DockerRootDir); err != nil || !info.IsDir() {
		return ""
	}
	return p.info.DockerRootDir
}

// lastUse returns when an image was made, or when this user last used it on this machine, as far as
// that is noted: engines do not know.
func lastUse(i image.Summary) time.Time {
	last := time.Unix(i.Created, 0)
	for _, tag := range i.RepoTags {
		if info, err := os.Stat(useNote(tag)); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last
}

// noteUse records the use of an image in the time of a file.
func noteUse(ref string) {
	note := useNote(ref)
	if note == "" || !strings.HasPrefix(ref, "rollout/") {
		return
	}
	now := time.Now()
	if err := os.Chtimes(note, now, now); !errors.Is(err, os.ErrNotExist) {
		return
	}
	if os.MkdirAll(filepath.Dir(note), 0o700) == nil {
		_ = os.WriteFile(note, nil, 0o600) // without it, the image looks older than it is
	}
}

func forgetUse(ref string) {
	if note := useNote(ref); note != "" {
		_ = os.Remove(note)
	}
}

// useNote returns the file whose time says when an image was used; "" if there is no place for it.
func useNote(ref string) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	sum := sha256.Sum256([]byte(ref))
	return filepath.Join(dir, "rollout", "builds", "used", hex.EncodeToString(sum[:12]))
}
