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
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	dockershell "github.com/moby/buildkit/frontend/dockerfile/shell"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/internal/excerpt"
)

// builtRef begins every reference that BuildImage returns.
const builtRef = "fake.local/"

// oddRunes are those that a reference cannot have.
var oddRunes = regexp.MustCompile(`[^a-z0-9]+`)

// BuildImage implements environment.Provider, for Dockerfiles of one stage.
func (p *Provider) BuildImage(ctx context.Context, opts environment.BuildOptions) (string, error) {
	b := &builder{ctx: ctx, provider: p, opts: opts, files: map[string]contextFile{}, args: maps.Clone(opts.Args)}
	fails := func(err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &environment.Error{Kind: environment.KindBuild, Output: b.kept.String() + b.rest, Err: fmt.Errorf("build image: %w", err)}
	}
	sum, err := b.readContext()
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
	p.world.mu.Unlock()
	if img == nil || opts.NoCache {
		if err := b.build(); err != nil {
			return "", fails(err)
		}
		p.world.keep(ref, &b.image, b.m.root)
		return ref, nil
	}
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	img.used = time.Now()
	return ref, nil
}

// keep stores an image with these files.
func (w *World) keep(ref string, img *image, root *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept++
	img.id, img.used, img.root = fmt.Sprintf("image %d", w.kept), time.Now(), root.clone(map[*node]*node{})
	w.images[ref] = img
}

// builder executes a Dockerfile. Instructions for those who run an image are ignored.
type builder struct {
	ctx      context.Context
	provider *Provider
	opts     environment.BuildOptions
	files    map[string]contextFile
	m        *machine
	image    image
	args     map[string]string
	kept     excerpt.Ends // what was printed
	rest     string       // an unfinished line
}

type contextFile struct {
	mode fs.FileMode
	data []byte
}

// readContext reads the build context and returns a checksum of it and of the arguments. Of the files that .dockerignore names, it
// only reads the Dockerfile.
func (b *builder) readContext() (string, error) {
	context := b.opts.Context
	var patterns []string
	if f, err := context.Open(".dockerignore"); err == nil {
		defer f.Close()
		if patterns, err = ignorefile.ReadAll(f); err != nil {
			return "", fmt.Errorf(".dockerignore: %w", err)
		}
	}
	ignored, err := patternmatcher.New(patterns)
	if err != nil {
		return "", fmt.Errorf(".dockerignore: %w", err)
	}
	sum := sha256.New()
	err = fs.WalkDir(context, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		skip, err := ignored.MatchesOrParentMatches(name)
		if err != nil || skip && name != "Dockerfile" {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		f := contextFile{mode: info.Mode()}
		if info.Mode().IsRegular() {
			f.data, err = fs.ReadFile(context, name)
		}
		fmt.Fprintf(sum, "%q %v %x\n", name, f.mode, sha256.Sum256(f.data))
		b.files[name] = f
		return err
	})
	for _, name := range slices.Sorted(maps.Keys(b.args)) {
		fmt.Fprintf(sum, "%q=%q\n", name, b.args[name])
	}
	return fmt.Sprintf("%x", sum.Sum(nil))[:16], err
}

// Write passes lines on as the progress of the build.
func (b *builder) Write(p []byte) (int, error) {
	b.rest += string(p)
	for {
		line, rest, ok := strings.Cut(b.rest, "\n")
		if !ok {
			return len(p), nil
		}
		b.rest = rest
		fmt.Fprintln(&b.kept, line)
		if b.opts.Progress != nil {
			b.opts.Progress(line)
		}
	}
}

func (b *builder) build() error {
	dockerfile, ok := b.files["Dockerfile"]
	if !ok {
		return errors.New("there is no Dockerfile")
	}
	parsed, err := parser.Parse(strings.NewReader(string(dockerfile.data)))
	if err != nil {
		return fmt.Errorf("Dockerfile: %w", err)
	}
	stages, before, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		return fmt.Errorf("Dockerfile: %w", err)
	}
	if len(stages) != 1 {
		return errors.New("Dockerfile: the fake environment builds one stage")
	}
	if b.args == nil {
		b.args = map[string]string{}
	}
	for _, arg := range before {
		b.arg(arg.Args)
	}
	name, err := b.expand(stages[0].BaseName)
	if err != nil {
		return err
	}
	base := b.provider.image(name)
	if base == nil {
		return fmt.Errorf("Dockerfile: there is no image %s", name)
	}
	b.image, b.m = *base, newMachine(base.root, b.provider.world)
	b.image.from, b.image.env, b.image.about = base, maps.Clone(base.env), ""
	defer b.m.killAll(nil, nil)
	for _, command := range stages[0].Commands {
		fmt.Fprintln(b, command)
		if err := errors.Join(b.instruction(command), b.ctx.Err()); err != nil {
			return fmt.Errorf("Dockerfile:%d: %w", command.Location()[0].Start.Line, err)
		}
	}
	return nil
}

func (b *builder) arg(args []instructions.KeyValuePairOptional) {
	for _, arg := range args {
		if _, given := b.args[arg.Key]; !given && arg.Value != nil {
			b.args[arg.Key] = *arg.Value
		}
	}
}

// expand replaces variables and removes quotes.
func (b *builder) expand(word string) (string, error) {
	vars := maps.Clone(b.args)
	maps.Copy(vars, b.image.env)
	var list []string
	for name, value := range vars {
		list = append(list, name+"="+value)
	}
	expanded, _, err := dockershell.NewLex('\\').ProcessWord(word, dockershell.EnvsFromSlice(list))
	return expanded, err
}

func (b *builder) instruction(command instructions.Command) error {
	if e, ok := command.(instructions.SupportsSingleWordExpansion); ok {
		if err := e.Expand(b.expand); err != nil {
			return err
		}
	}
	switch i := command.(type) {
	case *instructions.ArgCommand:
		b.arg(i.Args)
	case *instructions.EnvCommand:
		for _, pair := range i.Env {
			b.image.env[pair.Key] = pair.Value
		}
	case *instructions.WorkdirCommand:
		b.image.workDir = path.Clean(absolute(b.image.workDir, i.Path))
		return b.m.mkdirAll(nil, b.image.workDir)
	case *instructions.UserCommand:
		b.image.user = i.User
	case *instructions.EntrypointCommand:
		b.image.entrypoint = words(i.ShellDependantCmdLine)
	case *instructions.HealthCheckCommand:
		b.image.healthcheck = i.Health
	case *instructions.ShellCommand:
		b.image.shell = i.Shell
	case *instructions.CopyCommand:
		if i.From != "" || i.Chown != "" || len(i.SourceContents) > 0 {
			return errors.New("the fake environment knows only files of the context, and --chmod")
		}
		return b.copy(i.SourcePaths, i.DestPath, i.Chmod)
	case *instructions.RunCommand:
		return b.run(i)
	case *instructions.AddCommand, *instructions.OnbuildCommand:
		return fmt.Errorf("the fake environment does not know %s", command.Name())
	}
	return nil
}

func words(c instructions.ShellDependantCmdLine) []string {
	if c.PrependShell {
		return []string{"sh", "-c", strings.Join(c.CmdLine, " ")}
	}
	return c.CmdLine
}

func (b *builder) run(i *instructions.RunCommand) error {
	script := strings.Join(i.CmdLine, " ")
	if !i.PrependShell {
		script = quoted(i.CmdLine)
	}
	if len(i.Files) > 0 {
		return errors.New("the fake environment does not know here-documents in Dockerfiles")
	}
	env := maps.Clone(b.args)
	maps.Copy(env, b.image.env)
	x, p, err := b.m.begin(script, nil, env, &b.image, environment.ExecOptions{Stdout: b, Stderr: b})
	if err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-b.ctx.Done():
	}
	b.m.killAll(x, nil)
	_ = x.stdout.close()
	if _, code := p.dead(); code != 0 {
		return fmt.Errorf("the command failed with exit code %d", code)
	}
	return nil
}

// copy copies files and directories of the context into the image.
func (b *builder) copy(sources []string, dst, chmod string) error {
	into := strings.HasSuffix(dst, "/") || dst == "." || len(sources) > 1
	dst = path.Clean(absolute(b.image.workDir, dst))
	for _, src := range sources {
		src = path.Clean(strings.TrimPrefix(src, "/"))
		found := src == "."
		for _, name := range slices.Sorted(maps.Keys(b.files)) {
			f, to := b.files[name], dst
			below, isBelow := strings.CutPrefix(name, src+"/")
			switch {
			case src == ".":
				to = path.Join(dst, name)
			case isBelow:
				to = path.Join(dst, below)
			case name != src:
				continue
			case into && !f.mode.IsDir():
				to = path.Join(dst, path.Base(name))
			}
			found = true
			n := newNode(f.mode.Type()|f.mode.Perm(), string(f.data))
			if bits, err := strconv.ParseUint(chmod, 8, 9); err == nil {
				n.mode = n.mode.Type() | fs.FileMode(bits)
			}
			if err := b.m.replace(to, n); err != nil {
				return err
			}
		}
		if !found {
			return fmt.Errorf("%s is not in the build context", src)
		}
	}
	return nil
}

// quoted returns words as a shell reads them.
func quoted(words []string) string {
	var all []string
	for _, word := range words {
		all = append(all, "'"+strings.ReplaceAll(word, "'", `'\''`)+"'")
	}
	return strings.Join(all, " ")
}
