package fake

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	dockershell "github.com/moby/buildkit/frontend/dockerfile/shell"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/excerpt"
)

// builtRef begins every reference that BuildImage returns.
const builtRef = "fake.local/"

// oddRunes matches characters that are not allowed in a reference.
var oddRunes = regexp.MustCompile(`[^a-z0-9]+`)

// BuildImage implements environment.Provider, for Dockerfiles of one stage.
func (p *Provider) BuildImage(ctx context.Context, opts environment.BuildOptions) (string, error) {
	b := &builder{opts: opts}
	fails := func(err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &environment.Error{Kind: environment.KindBuild, Output: b.kept.String(), Err: fmt.Errorf("build image: %w", err)}
	}
	sum, err := checksum(opts.Context)
	if err != nil {
		return "", fails(err)
	}
	name := oddRunes.ReplaceAllString(strings.ToLower(opts.Name), "-")
	ref := builtRef + cmp.Or(strings.Trim(name[:min(len(name), 60)], "-"), "image") + ":" + sum
	unlock, err := p.world.lock(ctx, ref)
	if err != nil {
		return "", err
	}
	defer unlock()
	p.world.mu.Lock()
	img := p.world.images[ref]
	if img != nil {
		img.used = time.Now()
	}
	p.world.mu.Unlock()
	if img != nil && !opts.NoCache {
		return ref, nil
	}
	if err := b.build(ctx, p); err != nil {
		return "", fails(err)
	}
	p.world.keep(ref, b.image, b.env.root)
	return ref, nil
}

// keep stores an image with the given files.
func (w *World) keep(ref string, img image, root *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept++
	img.id, img.used, img.root = fmt.Sprintf("image %d", w.kept), time.Now(), root
	w.images[ref] = &img
}

// checksum returns the checksum of a build context.
func checksum(context fs.FS) (string, error) {
	hash := sha256.New()
	err := fs.WalkDir(context, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var data []byte
		if info.Mode().IsRegular() {
			data, err = fs.ReadFile(context, name)
		}
		fmt.Fprintf(hash, "%q %v %x\n", name, info.Mode(), sha256.Sum256(data))
		return err
	})
	return fmt.Sprintf("%x", hash.Sum(nil))[:16], err
}

// builder executes a Dockerfile.
type builder struct {
	opts  environment.BuildOptions
	env   *Environment // in which the commands run
	image image
	kept  excerpt.Ends // the output
	rest  string       // an unfinished line
}

// Write reports lines as the progress of the build.
func (b *builder) Write(p []byte) (int, error) {
	_, _ = b.kept.Write(p)
	b.rest += string(p)
	for {
		line, rest, ok := strings.Cut(b.rest, "\n")
		if !ok {
			return len(p), nil
		}
		if b.rest = rest; b.opts.Progress != nil {
			b.opts.Progress(line)
		}
	}
}

func (b *builder) build(ctx context.Context, p *Provider) error {
	dockerfile, err := b.opts.Context.Open("Dockerfile")
	if err != nil {
		return err
	}
	defer dockerfile.Close()
	parsed, err := parser.Parse(dockerfile)
	if err != nil {
		return fmt.Errorf("Dockerfile: %w", err)
	}
	stages, _, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		return fmt.Errorf("Dockerfile: %w", err)
	}
	if len(stages) != 1 {
		return errors.New("Dockerfile: the fake environment builds one stage")
	}
	base := p.image(stages[0].BaseName)
	if base == nil {
		return fmt.Errorf("Dockerfile: there is no image %s", stages[0].BaseName)
	}
	b.image, b.env = *base, p.newEnvironment(base)
	b.image.from, b.image.env, b.image.about = base, maps.Clone(base.env), ""
	defer b.env.end(spent)
	for _, command := range stages[0].Commands {
		fmt.Fprintln(b, command)
		if err := b.instruction(ctx, command); err != nil {
			return fmt.Errorf("Dockerfile:%d: %w", command.Location()[0].Start.Line, err)
		}
	}
	return nil
}

// expand replaces variables and removes quotes.
func (b *builder) expand(word string) (string, error) {
	var list []string
	for name, value := range b.image.env {
		list = append(list, name+"="+value)
	}
	expanded, _, err := dockershell.NewLex('\\').ProcessWord(word, dockershell.EnvsFromSlice(list))
	return expanded, err
}

func (b *builder) instruction(ctx context.Context, command instructions.Command) error {
	if e, ok := command.(instructions.SupportsSingleWordExpansion); ok {
		if err := e.Expand(b.expand); err != nil {
			return err
		}
	}
	switch i := command.(type) {
	case *instructions.EnvCommand:
		for _, pair := range i.Env {
			b.image.env[pair.Key] = pair.Value
		}
	case *instructions.WorkdirCommand:
		b.image.workDir = path.Clean(absolute(b.image.workDir, i.Path))
		return b.env.own.mkdirAll(b.image.workDir)
	case *instructions.CopyCommand:
		if len(i.SourcePaths) != 1 || i.From != "" || i.Chown != "" || i.Chmod != "" {
			return errors.New("the fake environment copies one file or directory of the context, as it is")
		}
		return b.copy(ctx, i.SourcePaths[0], i.DestPath)
	case *instructions.RunCommand:
		if !i.PrependShell || len(i.Files) > 0 {
			return errors.New("the fake environment knows neither lists of words nor here-documents in Dockerfiles")
		}
		code, err := b.env.Exec(ctx, strings.Join(i.CmdLine, " "), environment.ExecOptions{
			Env: b.image.env, WorkDir: b.image.workDir, Stdout: b, Stderr: b,
		})
		if err == nil && code != 0 {
			err = fmt.Errorf("the command failed with exit code %d", code)
		}
		return err
	case *instructions.CmdCommand, *instructions.LabelCommand:
	default:
		return fmt.Errorf("the fake environment does not know %s", command.Name())
	}
	return nil
}

// copy copies a file or directory of the context into the image.
func (b *builder) copy(ctx context.Context, src, dst string) error {
	src = path.Join(".", strings.TrimPrefix(src, "/"))
	info, err := fs.Stat(b.opts.Context, src)
	if err != nil {
		return err
	}
	if !info.IsDir() && (strings.HasSuffix(dst, "/") || dst == ".") {
		dst = path.Join(dst, path.Base(src))
	}
	dst = path.Clean(absolute(b.image.workDir, dst))
	if info.IsDir() {
		tree, _ := fs.Sub(b.opts.Context, src) // Stat has succeeded
		return b.env.CopyTo(ctx, environment.Copy{Src: tree, Dst: dst})
	}
	data, err := fs.ReadFile(b.opts.Context, src)
	if err != nil {
		return err
	}
	return b.env.replace(dst, newFile(int64(info.Mode().Perm()), data))
}
