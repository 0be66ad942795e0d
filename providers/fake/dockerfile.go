package fake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	dockershell "github.com/moby/buildkit/frontend/dockerfile/shell"

	"github.com/org/rollout-action/internal/environment"
)

// builder runs a Dockerfile of one stage: FROM, ARG, ENV, WORKDIR, USER, COPY, ADD (of files) and RUN.
// What only matters to those who run an image is ignored.
type builder struct {
	ctx      context.Context
	provider *Provider
	files    []contextFile
	opts     environment.BuildOptions
	out      printed

	m     *machine
	image image
	args  map[string]string
}

// ignoredInstructions mean nothing here.
var ignoredInstructions = []string{"cmd", "label", "expose", "stopsignal", "volume", "maintainer"}

func (b *builder) build() (*image, error) {
	b.out.progress = b.opts.Progress
	b.args = map[string]string{}
	err := b.run()
	if b.ctx.Err() != nil {
		return nil, b.ctx.Err()
	}
	if err != nil {
		return nil, buildError(err, b.out.String())
	}
	b.m.killAll()
	b.image.root = b.m.root.freeze()
	return &b.image, nil
}

func (b *builder) run() error {
	i := slices.IndexFunc(b.files, func(f contextFile) bool { return f.path == "Dockerfile" })
	if i < 0 {
		return errors.New("there is no Dockerfile")
	}
	parsed, err := parser.Parse(strings.NewReader(string(b.files[i].data)))
	if err != nil {
		return fmt.Errorf("Dockerfile: %w", err)
	}
	for _, node := range parsed.AST.Children {
		if err := b.ctx.Err(); err != nil {
			return err
		}
		b.out.add(node.Original)
		if err := b.instruction(node); err != nil {
			return fmt.Errorf("Dockerfile:%d: %w", node.StartLine, err)
		}
	}
	if b.m == nil {
		return errors.New("the Dockerfile has no FROM")
	}
	return nil
}

func (b *builder) instruction(node *parser.Node) error {
	name := strings.ToLower(node.Value)
	var words []string
	for n := node.Next; n != nil; n = n.Next {
		words = append(words, n.Value)
	}
	switch {
	case slices.Contains(ignoredInstructions, name):
		return nil
	case name == "arg":
		return b.arg(words)
	case b.m == nil && name != "from":
		return fmt.Errorf("%s before FROM", strings.ToUpper(name))
	case len(words) == 0 && name != "entrypoint":
		return fmt.Errorf("%s needs arguments", strings.ToUpper(name))
	}
	switch name {
	case "run":
		return b.runCommand(node, words)
	case "entrypoint", "healthcheck", "shell":
		return b.setting(node)
	}
	for i, word := range words {
		expanded, err := b.expand(word)
		if err != nil {
			return err
		}
		words[i] = expanded
	}
	switch name {
	case "from":
		return b.from(words)
	case "env":
		for triple := range slices.Chunk(words, 3) { // name, value, and what stood between them
			b.image.env[triple[0]] = triple[1]
		}
		return nil
	case "workdir":
		b.image.workDir = path.Join(b.image.workDir, words[0])
		if path.IsAbs(words[0]) {
			b.image.workDir = path.Clean(words[0])
		}
		return b.m.mkdirAll(nil, b.image.workDir, 0o755)
	case "user":
		b.image.user = words[0]
		return nil
	case "copy", "add":
		return b.copy(node.Flags, words)
	}
	return fmt.Errorf("unknown instruction: %s", strings.ToUpper(name))
}

// expand replaces variables and takes away quotes.
func (b *builder) expand(word string) (string, error) {
	expanded, _, err := dockershell.NewLex('\\').ProcessWord(word, dockershell.EnvsFromSlice(b.variables()))
	return expanded, err
}

// variables are what instructions see: arguments, and over them the environment.
func (b *builder) variables() []string {
	vars := maps.Clone(b.args)
	maps.Copy(vars, b.image.env)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		list = append(list, name+"="+vars[name])
	}
	return list
}

func (b *builder) from(words []string) error {
	if b.m != nil {
		return errors.New("the fake environment builds single stages only")
	}
	base := b.provider.image(words[0])
	if base == nil && words[0] == "scratch" {
		base = baseImage
	}
	if base == nil {
		return fmt.Errorf("there is no image %s", words[0])
	}
	b.m = newMachine(base.root.clone(), b.provider.world)
	b.image = image{
		env: maps.Clone(base.env), workDir: base.workDir, user: base.user, from: base,
		entrypoint: base.entrypoint, shell: base.shell, healthcheck: base.healthcheck,
	}
	return nil
}

func (b *builder) arg(words []string) error {
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		value, err := b.expand(value)
		if err != nil {
			return err
		}
		if given, ok := b.opts.Args[name]; ok {
			value = given
		}
		b.args[name] = value
	}
	return nil
}

// setting changes how the image is run.
func (b *builder) setting(node *parser.Node) error {
	parsed, err := instructions.ParseInstruction(node)
	if err != nil {
		return err
	}
	switch i := parsed.(type) {
	case *instructions.EntrypointCommand:
		b.image.entrypoint = i.CmdLine
		if i.PrependShell {
			b.image.entrypoint = []string{"sh", "-c", strings.Join(i.CmdLine, " ")}
		}
	case *instructions.HealthCheckCommand:
		b.image.healthcheck = i.Health
	case *instructions.ShellCommand:
		b.image.shell = i.Shell
	}
	return nil
}

// runCommand runs a script, or the words of a JSON list.
func (b *builder) runCommand(node *parser.Node, words []string) error {
	script := strings.Join(words, " ")
	if node.Attributes["json"] {
		for i, word := range words {
			words[i] = quote(word)
		}
		script = strings.Join(words, " ")
	}
	for _, doc := range node.Heredocs {
		if strings.HasPrefix(strings.TrimSpace(script), "<<") {
			script = doc.Content
		} else {
			script += "\n" + doc.Content + doc.Name
		}
	}
	env := maps.Clone(b.args)
	maps.Copy(env, b.image.env)
	x := b.m.execution(env, environment.ExecOptions{Stdout: &b.out, Stderr: nil})
	x.stderr = x.stdout
	p, err := x.begin(script, nil, &b.image, environment.ExecOptions{})
	if err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-b.ctx.Done():
	}
	x.kill()
	_ = x.stdout.close()
	if _, code := p.dead(); code != 0 {
		return fmt.Errorf("%s failed with exit code %d", strings.TrimSpace(node.Original), code)
	}
	return b.ctx.Err()
}

// copy copies from the context into the image.
func (b *builder) copy(flags, words []string) error {
	var chmod fs.FileMode
	for _, flag := range flags {
		name, value, _ := strings.Cut(flag, "=")
		mode, err := strconv.ParseUint(value, 8, 12)
		if name != "--chmod" || err != nil {
			return fmt.Errorf("the fake environment does not know %s", flag)
		}
		chmod = fs.FileMode(mode)
	}
	if len(words) < 2 {
		return errors.New("COPY needs a source and a destination")
	}
	dst := words[len(words)-1]
	into := strings.HasSuffix(dst, "/") || dst == "." || len(words) > 2
	if !path.IsAbs(dst) {
		dst = path.Join(b.image.workDir, dst)
	}
	for _, src := range words[:len(words)-1] {
		if err := b.copySource(path.Clean(strings.TrimPrefix(src, "/")), path.Clean(dst), into, chmod); err != nil {
			return err
		}
	}
	return nil
}

// copySource copies one file, the content of one folder, or what matches a pattern.
func (b *builder) copySource(src, dst string, into bool, chmod fs.FileMode) error {
	found := src == "."
	for _, f := range b.files {
		below, isBelow := strings.CutPrefix(f.path, src+"/")
		matches, _ := path.Match(src, f.path)
		to := ""
		switch {
		case !f.sent:
			continue
		case src == ".":
			to = path.Join(dst, f.path)
		case isBelow:
			to = path.Join(dst, below)
		case matches && f.mode.IsDir():
			to = dst
		case matches && (into || src != f.path):
			to = path.Join(dst, path.Base(f.path))
		case matches:
			to = dst
			if i, err := b.m.stat(nil, dst, true); err == nil && i.IsDir() {
				to = path.Join(dst, path.Base(f.path))
			}
		default:
			continue
		}
		found = true
		if err := b.copyFile(f, to, chmod); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("%s is not in the build context", src)
	}
	return nil
}

func (b *builder) copyFile(f contextFile, to string, chmod fs.FileMode) error {
	n := newDir(f.mode.Perm())
	if !f.mode.IsDir() {
		n = newFile(f.mode.Perm(), string(f.data))
	}
	if chmod != 0 {
		n.mode = n.mode.Type() | chmod
	}
	return b.m.place(to, n)
}
