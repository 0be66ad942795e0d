package kubernetes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/podinit"
	"github.com/org/rollout-action/providers/internal/registryimage"
)

// helperName is the last part of the helper image's name in the registry.
const helperName = "rollout-helper"

// pushHelper returns the reference of an image that contains only this program. It pushes the image
// unless the registry already holds it.
func (p *Provider) pushHelper(ctx context.Context) (string, error) {
	doing := "push Rollout's own program to " + p.config.registry
	program, err := p.program()
	if err != nil {
		return "", wrapped(environment.KindUnavailable, doing, err)
	}
	key, size, err := digest(program, podinit.Installer)
	if err != nil {
		return "", wrapped(environment.KindUnavailable, doing, err)
	}
	ref, err := p.images.Find(ctx, helperName, key)
	if err != nil || ref != "" {
		return ref, wrapped(environment.KindUnavailable, "look for Rollout's own program in "+p.config.registry, err)
	}
	ref, err = p.images.Push(ctx, registryimage.PushOptions{
		Layers: []registryimage.Layer{registryimage.FileLayer("/"+podinit.Installer, 0o755, size, func() (io.ReadCloser, error) {
			return program.Open(podinit.Installer)
		})},
		Name: helperName, Key: key,
	})
	return ref, wrapped(environment.KindUnavailable, doing, err)
}

// digest returns a digest of a file's content, and its size.
func digest(of fs.FS, name string) (key string, size int64, err error) {
	f, err := of.Open(name)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	sum := sha256.New()
	size, err = io.Copy(sum, f)
	if err != nil {
		return "", 0, fmt.Errorf("read %s: %w", name, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), size, nil
}
