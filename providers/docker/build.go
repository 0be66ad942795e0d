package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/docker/docker/api/types/image"
	"github.com/gofrs/flock"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/solver/errdefs"

	"github.com/org/rollout-action/internal/environment"
)

const (
	// tagDigits is how much of a context's digest is in its image's tag.
	tagDigits = 16
	// maxImageName keeps references short; tags tell images apart.
	maxImageName = 60
	// lockPoll is the interval at which a build checks whether another process has finished the same.
	lockPoll = 200 * time.Millisecond
)

// BuildImage implements environment.Provider: with BuildKit if the engine has it, else with the
// classic builder. The reference is rollout/<name>:<digest of all that is built>.
func (p *Provider) BuildImage(ctx context.Context, opts environment.BuildOptions) (string, error) {
	content, err := readContext(opts.Context)
	if err != nil {
		return "", unreadable(err)
	}
	digest, err := content.digest(ctx, opts.Args, p.info.OSType+"/"+p.info.Architecture)
	if err != nil {
		return "", unreadable(err)
	}
	tag := "rollout/" + imageName(opts.Name) + ":" + digest[:tagDigits]
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
	err = p.flights.do(ctx, key, opts.Progress, func(ctx context.Context, tell func(string)) error {
		return p.build(ctx, req, tell)
	})
	if err != nil {
		return "", err
	}
	return tag, nil
}

// unreadable returns the error for a context that cannot be read, which no retry mends.
func unreadable(err error) error {
	e := &environment.Error{Kind: environment.KindBuild, Err: fmt.Errorf("read the build context: %w", err)}
	if errors.Is(err, fs.ErrNotExist) {
		e.Hint = "the environment directory needs a Dockerfile"
	}
	return e
}

// imageName returns any text as a path component of an image reference.
func imageName(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			b.WriteRune(r)
		} else if b.Len() > 0 && !strings.HasSuffix(b.String(), "-") {
			b.WriteByte('-')
		}
		if b.Len() >= maxImageName {
			break
		}
	}
	if b.Len() == 0 {
		return "task"
	}
	return strings.TrimSuffix(b.String(), "-")
}

// buildRequest is one image to build.
type buildRequest struct {
	tag     string
	digest  string // of all that is built
	content buildContext
	args    map[string]string
	noCache bool
}

// build builds an image unless another process just did.
func (p *Provider) build(ctx context.Context, req buildRequest, tell func(string)) error {
	defer lock(ctx, req.digest[:2])()
	before, err := p.api.ImageInspect(ctx, req.tag)
	if err == nil && !req.noCache {
		return nil
	}
	out := lines{progress: tell}
	if err := p.buildWith(ctx, req, &out); err != nil {
		return p.buildFailed(ctx, req, &out, err)
	}
	p.removeNameless(ctx, before.ID)
	return nil
}

// removeNameless removes an image that was replaced by a newer one, unless it has another name, or is
// in use.
func (p *Provider) removeNameless(ctx context.Context, id string) {
	if id == "" {
		return
	}
	if old, err := p.api.ImageInspect(ctx, id); err == nil && len(old.RepoTags) == 0 {
		_, _ = p.api.ImageRemove(ctx, id, image.RemoveOptions{PruneChildren: true})
	}
}

func (p *Provider) buildWith(ctx context.Context, req buildRequest, out *lines) error {
	buildkit, err := p.hasBuildKit(ctx)
	if err != nil {
		return err
	}
	if buildkit {
		return p.buildKit(ctx, req, out)
	}
	return p.buildClassic(ctx, req, out)
}

// buildFailed returns the error of a build. It is transient if the engine failed, or if a base image is
// missing whose registry does not answer.
func (p *Provider) buildFailed(ctx context.Context, req buildRequest, out *lines, err error) error {
	doing := "build " + req.tag
	if isContext(err) || ctx.Err() != nil || isConnection(err) {
		return failed(environment.KindBuild, doing, err)
	}
	if hint := engineFault(err); hint != "" {
		return &environment.Error{
			Kind: environment.KindUnavailable, Transient: isTransient(err), Hint: hint, Output: out.tail(), Err: fmt.Errorf("%s: %w", doing, err),
		}
	}
	line := failedLine(req.content.dockerfile, out, err)
	if line > 0 {
		doing += fmt.Sprintf(": Dockerfile:%d: %s", line, instructionAt(req.content.dockerfile, line))
	}
	e := &environment.Error{Kind: environment.KindBuild, Err: fmt.Errorf("%s: %w", doing, err)}
	if out.failed != nil {
		e.Output = out.tail() // of that step; otherwise it would say what went well
	}
	if code := exitCode(err); code != 0 {
		e.Output = out.tail()
		if line > 0 { // what the engine says is the command again, however long
			e.Err = fmt.Errorf("%s: exit code %d", doing, code)
		}
		return e
	}
	for _, ref := range baseImages(req.content.dockerfile, req.args) {
		if present, err := p.hasImage(ctx, ref); err != nil || present {
			continue
		}
		var reason string
		e.Transient, reason = p.pullFailure(ctx, ref)
		e.Hint = "base image " + ref + ": " + reason
		break
	}
	return e
}

// engineFault returns what to do if a build failed for the engine's own reasons; "" if it did not, or that is not known.
func engineFault(err error) string {
	switch {
	case isCommandFailure(err):
		return ""
	case strings.Contains(err.Error(), syscall.ENOSPC.Error()): // engines have no other way to say so
		return "the engine's disk is full: docker system df says what is on it, and rollout clean --images removes what rollout has left there"
	case isTransient(err):
		return "the engine failed, and its own log says why: run the job again"
	}
	return ""
}

// failedLine returns the line of the Dockerfile at which a build failed, 0 if that is not known.
func failedLine(dockerfile []byte, out *lines, err error) int {
	for _, source := range errdefs.Sources(err) {
		if ranges := source.GetRanges(); len(ranges) > 0 {
			return int(ranges[0].GetStart().GetLine())
		}
	}
	parsed, unsound := parser.Parse(bytes.NewReader(dockerfile))
	if unsound != nil {
		return 0
	}
	if out.number > 0 && out.number <= len(parsed.AST.Children) {
		return parsed.AST.Children[out.number-1].StartLine
	}
	return lineOfStep(parsed.AST.Children, out.step)
}

// stepName is BuildKit's name of a step: the stage's name or number if there are several, the step's number in the
// stage, and its instruction.
var stepName = regexp.MustCompile(`^\[(?:(\S+) )?([0-9]+)/[0-9]+\] ([A-Z]+) `)

// lineOfStep returns the line of a step by BuildKit's name of it, 0 if it cannot be told.
func lineOfStep(instructions []*parser.Node, name string) int {
	named := stepName.FindStringSubmatch(name)
	if named == nil {
		return 0
	}
	wanted, _ := strconv.Atoi(named[2]) // digits
	stage, number, found := -1, 0, 0
	for _, node := range instructions {
		keyword := strings.ToUpper(node.Value)
		if keyword == "FROM" {
			stage, number = stage+1, 0
		}
		if !slices.Contains([]string{"FROM", "RUN", "COPY", "ADD", "WORKDIR"}, keyword) {
			continue // makes no step
		}
		if number++; number == wanted && keyword == named[3] && isStage(instructions, stage, named[1]) {
			if found > 0 {
				return 0
			}
			found = node.StartLine
		}
	}
	return found
}

// isStage reports whether a stage has this name: its own, stage-N, or none if it is the only one.
func isStage(instructions []*parser.Node, stage int, name string) bool {
	at := -1
	for _, node := range instructions {
		if !strings.EqualFold(node.Value, "FROM") {
			continue
		}
		if at++; at != stage {
			continue
		}
		if image := node.Next; image != nil && image.Next != nil && image.Next.Next != nil {
			return strings.EqualFold(image.Next.Next.Value, name) // AS name
		}
	}
	return name == "" || name == fmt.Sprintf("stage-%d", stage)
}

// instructionAt returns the beginning of the instruction at a line of a Dockerfile, on one line.
func instructionAt(dockerfile []byte, line int) string {
	const most = 60 // what the step printed matters more, and has to have room behind it
	parsed, err := parser.Parse(bytes.NewReader(dockerfile))
	if err != nil {
		return ""
	}
	for _, node := range parsed.AST.Children {
		if node.StartLine <= line && line <= node.EndLine {
			text := strings.Join(strings.Fields(node.Original), " ")
			if len(text) > most {
				text = strings.ToValidUTF8(text[:most], "") + "…"
			}
			return text
		}
	}
	return ""
}

// lock keeps other processes of this user from making the same image at the same time; where it
// cannot, both do. Images whose digests begin alike share a lock file, named by two digits, so that there are
// never more than 256 of a kind.
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
