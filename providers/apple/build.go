package apple

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gofrs/flock"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/buildcontext"
	"github.com/org/rollout-action/providers/internal/buildkit"
)

const (
	// builtPrefix begins the references of images that BuildImage built.
	builtPrefix = "rollout/"
	// tagDigits is how much of a context's digest is in its image's tag.
	tagDigits = 16
	// maxDockerfile is the first size that the command refuses.
	// Source: https://github.com/apple/container/issues/735.
	maxDockerfile = 16 << 10
	// lockPoll is the interval at which a build checks whether another process has finished the
	// same.
	lockPoll = 200 * time.Millisecond
)

// CheckBuild implements environment.ImageChecker.
func (p *Provider) CheckBuild(_ context.Context, opts environment.BuildOptions) error {
	dockerfile, err := fs.ReadFile(opts.Context, buildcontext.Dockerfile)
	if err != nil || len(dockerfile) < maxDockerfile {
		return nil //nolint:nilerr // BuildImage says it
	}
	return tooLarge(len(dockerfile))
}

func tooLarge(size int) error {
	return &environment.Error{
		Kind: environment.KindBuild, Refused: true,
		Err:  fmt.Errorf("the Dockerfile has %d bytes, and container build takes less than %d", size, maxDockerfile),
		Hint: "move commands of it into a script, or use the provider docker",
	}
}

// BuildImage implements environment.Provider. The reference is rollout/<name>:<digest of all that
// is built>.
func (p *Provider) BuildImage(ctx context.Context, opts environment.BuildOptions) (string, error) {
	if err := p.CheckBuild(ctx, opts); err != nil {
		return "", err
	}
	content, err := buildcontext.Read(opts.Context)
	if err != nil {
		return "", unreadable(err)
	}
	digest, err := content.Digest(ctx, opts.Args, p.config.platform)
	if err != nil {
		return "", unreadable(err)
	}
	tag := builtPrefix + buildcontext.ImageName(opts.Name) + ":" + digest[:tagDigits]
	if !opts.NoCache {
		if _, err := p.variant(ctx, tag); err == nil {
			return tag, nil
		} else if !errors.Is(err, environment.ErrNoImage) {
			return "", p.failed(ctx, environment.KindBuild, "look for image "+tag, err)
		}
	}
	err = p.flights.Do(ctx, fmt.Sprintf("build %s %t", tag, opts.NoCache), opts.Progress, func(ctx context.Context, tell func(string)) error {
		defer p.lock(ctx, digest[:2])()
		if _, err := p.variant(ctx, tag); err == nil && !opts.NoCache {
			return nil
		}
		return p.build(ctx, tag, content, opts, tell)
	})
	if err != nil {
		return "", err
	}
	return tag, nil
}

// unreadable returns the error for a context that cannot be read.
func unreadable(err error) error {
	e := &environment.Error{Kind: environment.KindBuild, Err: fmt.Errorf("read the build context: %w", err)}
	if errors.Is(err, fs.ErrNotExist) {
		e.Hint = "the environment directory needs a Dockerfile"
	}
	return e
}

// build builds an image.
func (p *Provider) build(ctx context.Context, tag string, content buildcontext.Definition, opts environment.BuildOptions, tell func(string)) error {
	dir, err := os.MkdirTemp("", "rollout-build-")
	if err == nil {
		defer os.RemoveAll(dir)
		dir, err = filepath.EvalSymlinks(dir) // the command reads no context through links
	}
	if err != nil {
		return environment.MarkMachineError(err)
	}
	file, files := filepath.Join(dir, buildcontext.Dockerfile), filepath.Join(dir, "context")
	err = errors.Join(os.WriteFile(file, content.Dockerfile, 0o600), os.Mkdir(files, 0o755)) // #nosec G301 -- modes are part of the image
	if err == nil {
		err = writeContext(ctx, content, files)
	}
	if err != nil {
		return p.failed(ctx, environment.KindBuild, "write the build context", environment.MarkMachineError(err))
	}
	args := []string{"build", "--progress", "plain", "--platform", p.config.platform, "--tag", tag, "--file", file}
	if opts.NoCache {
		args = append(args, "--no-cache")
	}
	for _, name := range slices.Sorted(maps.Keys(opts.Args)) {
		args = append(args, "--build-arg", name+"="+opts.Args[name])
	}
	lines := &buildkit.Lines{Progress: tell}
	_, err = p.command.run(ctx, 1, lineWriter{lines}, append(args, files)...)
	lines.End()
	err = p.failed(ctx, environment.KindBuild, "build "+tag, err)
	if known := new(environment.Error); errors.As(err, &known) && known.Kind == environment.KindBuild {
		known.Err = fmt.Errorf("build %s: container build failed", tag)
		known.Output = lines.Tail()
	}
	return err
}

// writeContext writes the files of a context. Names that this machine's file system takes for one
// are an error.
func writeContext(ctx context.Context, content buildcontext.Definition, to string) error {
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer root.Close()
	return content.Files.Walk(ctx, "", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		switch mode := info.Mode(); {
		case mode.IsDir():
			return errors.Join(root.Mkdir(name, 0o700), root.Chmod(name, mode.Perm()|0o700))
		case mode&fs.ModeSymlink != 0:
			return symlink(root, content.Source, name)
		default:
			return writeFile(root, content, name, info)
		}
	})
}

func symlink(root *os.Root, source fs.FS, name string) error {
	target, err := fs.ReadLink(source, name)
	return errors.Join(err, root.Symlink(target, name))
}

func writeFile(root *os.Root, content buildcontext.Definition, name string, info fs.FileInfo) error {
	from, err := content.Files.Open(name)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close(), root.Chmod(name, info.Mode().Perm()|0o400), root.Chtimes(name, info.ModTime(), info.ModTime()))
}

// lock keeps other processes of this user from building the same image at the same time; where it
// cannot, both do. Images whose digests begin alike share a lock file.
func (p *Provider) lock(ctx context.Context, name string) (unlock func()) {
	dir := filepath.Join(p.options.Dir, "builds")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return func() {}
	}
	held := flock.New(filepath.Join(dir, name+".lock"))
	_, _ = held.TryLockContext(ctx, lockPoll)
	return func() { _ = held.Unlock() }
}
