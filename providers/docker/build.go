package docker

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/docker/docker/api/types/image"
	"github.com/gofrs/flock"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/buildcontext"
	"github.com/org/rollout-action/providers/internal/buildkit"
)

const (
	// tagDigits is how much of a context's digest is in its image's tag.
	tagDigits = 16
	// lockPoll is the interval at which a build checks whether another process has finished the
	// same.
	lockPoll = 200 * time.Millisecond
)

// BuildImage implements environment.Provider. It uses BuildKit if the engine supports it, otherwise
// the classic builder. The reference is rollout/<name>:<digest of all that is built>.
func (p *Provider) BuildImage(ctx context.Context, opts environment.BuildOptions) (string, error) {
	content, err := buildcontext.Read(opts.Context)
	if err != nil {
		return "", unreadable(err)
	}
	digest, err := content.Digest(ctx, opts.Args, p.info.OSType+"/"+p.info.Architecture)
	if err != nil {
		return "", unreadable(err)
	}
	tag := "rollout/" + buildcontext.ImageName(opts.Name) + ":" + digest[:tagDigits]
	if !opts.NoCache {
		present, err := p.hasImage(ctx, tag)
		if err != nil {
			return "", err
		}
		if present {
			noteUse(tag)
			return tag, nil
		}
	}
	req := buildRequest{tag: tag, digest: digest, content: content, args: opts.Args, noCache: opts.NoCache}
	key := fmt.Sprintf("build %s %t", tag, opts.NoCache)
	err = p.flights.Do(ctx, key, opts.Progress, func(ctx context.Context, tell func(string)) error {
		return p.build(ctx, req, tell)
	})
	if err != nil {
		return "", err
	}
	return tag, nil
}

// unreadable returns the error for a context that cannot be read. It is not transient.
func unreadable(err error) error {
	e := &environment.Error{Kind: environment.KindBuild, Err: fmt.Errorf("read the build context: %w", err)}
	if errors.Is(err, fs.ErrNotExist) {
		e.Hint = "the environment directory needs a Dockerfile"
	}
	return e
}

// buildRequest is one image to build.
type buildRequest struct {
	tag     string
	digest  string // of all that is built
	content buildcontext.Definition
	args    map[string]string
	noCache bool
	// platform is what to build for; empty is the engine's own.
	platform string
}

// build builds an image unless another process just did.
func (p *Provider) build(ctx context.Context, req buildRequest, tell func(string)) error {
	defer lock(ctx, req.digest[:2])()
	before, err := p.api.ImageInspect(ctx, req.tag)
	if err == nil && !req.noCache {
		return nil
	}
	out := buildkit.Lines{Progress: tell}
	if err := p.buildWith(ctx, req, &out); err != nil {
		return p.buildFailed(ctx, req, &out, err)
	}
	p.removeNameless(ctx, before.ID)
	return nil
}

// removeNameless removes an image that was replaced by a newer one, unless it has another name, or
// is in use.
func (p *Provider) removeNameless(ctx context.Context, id string) {
	if id == "" {
		return
	}
	if old, err := p.api.ImageInspect(ctx, id); err == nil && len(old.RepoTags) == 0 {
		_, _ = p.api.ImageRemove(ctx, id, image.RemoveOptions{PruneChildren: true})
	}
}

func (p *Provider) buildWith(ctx context.Context, req buildRequest, out *buildkit.Lines) error {
	buildkit, err := p.hasBuildKit(ctx)
	if err != nil {
		return err
	}
	if buildkit {
		return p.buildKit(ctx, req, out)
	}
	err = p.buildClassic(ctx, req, out)
	for try := 1; isPodmanRace(err) && try < engineTries && backOff(ctx, try); try++ {
		err = p.buildClassic(ctx, req, out)
	}
	return err
}

// buildFailed returns the error of a build. It is transient if the engine failed, or if a base
// image is missing whose registry does not answer, which is a KindPull.
func (p *Provider) buildFailed(ctx context.Context, req buildRequest, out *buildkit.Lines, err error) error {
	doing := "build " + req.tag
	if isContext(err) || ctx.Err() != nil || isConnection(err) {
		return failed(environment.KindBuild, doing, err)
	}
	if hint := engineFault(err); hint != "" {
		return &environment.Error{
			Kind: environment.KindUnavailable, Transient: isTransient(err), Hint: hint, Output: out.Tail(), Err: fmt.Errorf("%s: %w", doing, err),
		}
	}
	line, instruction := buildkit.FailedLine(req.content.Dockerfile, out, err), ""
	if line > 0 {
		instruction = buildkit.InstructionAt(req.content.Dockerfile, line)
		doing += fmt.Sprintf(": Dockerfile:%d: %s", line, instruction)
	}
	e := &environment.Error{Kind: environment.KindBuild, Hint: buildkit.HintOf(req.content.Dockerfile, err), Err: fmt.Errorf("%s: %w", doing, err)}
	if out.OfStep() {
		e.Output = out.Tail() // of that step; otherwise it would say what went well
	}
	if code := buildkit.ExitCode(err); code != 0 {
		e.Output = out.Tail()
		if line > 0 { // the engine's message repeats the command, however long
			e.Err = fmt.Errorf("%s: exit code %d", doing, code)
		}
		return e
	}
	if line > 0 && !strings.Contains(strings.ToUpper(instruction), "FROM") { // also as COPY --from
		return e
	}
	for _, ref := range buildkit.BaseImages(req.content.Dockerfile, req.args) {
		if present, err := p.hasImage(ctx, ref); err != nil || present {
			continue
		}
		platform := cmp.Or(req.platform, p.platform())
		if bytes.Contains(req.content.Dockerfile, []byte("--platform")) {
			platform = "" // that of this image may be another one
		}
		var reason string
		if e.Transient, reason = p.pullFailure(ctx, ref, platform); reason == hasItNow { // so it may not be the cause
			e.Hint = "base image " + ref + ": " + reason
			break
		}
		e.Err = fmt.Errorf("base image %s: %s (%s: %w)", ref, reason, doing, err)
		if e.Transient { // the Dockerfile is not to blame
			e.Kind, e.Hint = environment.KindPull, "run it again when the registry answers, or load the image into the engine"
		}
		break
	}
	return e
}

// engineFault returns a hint if a build failed for the engine's own reasons; "" if it did not, or
// if the cause is unknown.
func engineFault(err error) string {
	switch {
	case isCommandFailure(err):
		return ""
	case strings.Contains(err.Error(), syscall.ENOSPC.Error()): // engines have no other way to say so
		return "the engine's disk is full: docker system df shows its use, and rollout clean --images removes the images that Rollout made"
	case isTransient(err):
		return "the engine failed, and its own log says why: run the job again"
	}
	return ""
}

// lock keeps other processes of this user from making the same image at the same time; where it
// cannot, both do. Images whose digests begin alike share a lock file, named by two digits, so that
// there are never more than 256 of a kind.
func lock(ctx context.Context, name string) (unlock func()) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return func() {}
	}
	dir = filepath.Join(dir, "rollout", "builds")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return func() {}
	}
	held := flock.New(filepath.Join(dir, name+".lock"))
	_, _ = held.TryLockContext(ctx, lockPoll)
	return func() { _ = held.Unlock() }
}
