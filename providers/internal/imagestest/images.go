package imagestest

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"testing/fstest"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/buildcontext"
	"github.com/org/rollout-action/providers/internal/registryimage"
)

// Images stand in for a registry, and for the builders of its images: the provider that runs
// machines builds them.
type Images struct {
	runs environment.Provider
	base string

	mu     sync.Mutex
	images map[string]registryimage.Settings
	bares  map[string]string
}

// New returns Images that a provider builds, and has, with a base image that sets nothing.
func New(runs environment.Provider, base string) *Images {
	return &Images{runs: runs, base: base, images: map[string]registryimage.Settings{base: {}}, bares: map[string]string{}}
}

// Config returns the description of an image.
func (i *Images) Config(_ context.Context, ref string) (registryimage.Image, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	settings, ok := i.images[ref]
	if !ok {
		return registryimage.Image{}, &environment.Error{Kind: environment.KindPull, Err: fmt.Errorf("look for %s: %w", ref, fs.ErrNotExist)}
	}
	return registryimage.Image{Ref: ref, Digest: "sha256:" + ref, Settings: settings}, nil
}

// Build builds an image.
func (i *Images) Build(ctx context.Context, opts environment.BuildOptions) (string, error) {
	ref, err := i.runs.BuildImage(ctx, opts)
	if err != nil {
		return "", err
	}
	definition, err := buildcontext.Read(opts.Context)
	if err != nil {
		return "", err
	}
	settings, err := i.settings(definition.Dockerfile)
	if err != nil {
		return "", err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.images[ref] = settings
	return ref, nil
}

// CheckBuild reports no problems.
func (*Images) CheckBuild(context.Context, environment.BuildOptions) error { return nil }

// Close does nothing.
func (*Images) Close() error { return nil }

// settings returns the settings of an image, from a Dockerfile that expands no variables in them.
func (i *Images) settings(dockerfile []byte) (registryimage.Settings, error) {
	var s registryimage.Settings
	parsed, err := parser.Parse(bytes.NewReader(dockerfile))
	if err != nil {
		return s, err
	}
	for _, node := range parsed.AST.Children {
		instruction, err := instructions.ParseInstructionWithLinter(node, linter.New(&linter.Config{SkipAll: true}))
		if err != nil {
			return s, err
		}
		switch c := instruction.(type) {
		case *instructions.Stage:
			i.mu.Lock()
			s = i.images[c.BaseName]
			i.mu.Unlock()
			s.Env = slices.Clone(s.Env)
		case *instructions.EnvCommand:
			for _, pair := range c.Env {
				s.Env = append(s.Env, pair.Key+"="+strings.Trim(pair.Value, `"'`))
			}
		case *instructions.WorkdirCommand:
			s.WorkingDir = path.Join("/", s.WorkingDir, c.Path)
			if path.IsAbs(c.Path) {
				s.WorkingDir = path.Clean(c.Path)
			}
		case *instructions.UserCommand:
			s.User = c.User
		case *instructions.EntrypointCommand:
			s.Entrypoint = c.CmdLine
			if c.PrependShell && len(s.Shell) > 0 {
				s.Entrypoint = slices.Concat(s.Shell, c.CmdLine)
			} else if c.PrependShell {
				s.Entrypoint = append([]string{"/bin/sh", "-c"}, c.CmdLine...)
			}
		case *instructions.ShellCommand:
			s.Shell = c.Shell
		case *instructions.HealthCheckCommand:
			s.Healthcheck = c.Health
		case *instructions.VolumeCommand:
			s.Volumes = append(s.Volumes, c.Volumes...)
		}
	}
	return s, nil
}

// Bare returns the image that sandboxes have instead of ref: it does not run an ENTRYPOINT.
func (i *Images) Bare(ctx context.Context, runs environment.Provider, ref string) (string, error) {
	i.mu.Lock()
	settings, ok := i.images[ref]
	bare := i.bares[ref]
	i.mu.Unlock()
	switch {
	case !ok:
		return "", fs.ErrNotExist
	case bare != "":
		return bare, nil
	case len(settings.Entrypoint) == 0 && settings.User == "":
		return ref, nil
	}
	bare, err := runs.BuildImage(ctx, environment.BuildOptions{Name: "imagestest", Context: fstest.MapFS{
		"Dockerfile": {Data: []byte("FROM " + ref + "\nENTRYPOINT []\nUSER root\n"), Mode: 0o644},
	}})
	if err != nil {
		return "", err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.bares[ref] = bare
	return bare, nil
}
