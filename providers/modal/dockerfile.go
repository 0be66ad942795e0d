package modal

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/buildcontext"
	"github.com/org/rollout-action/providers/internal/registryimage"
)

// layers describes an image that Modal builds: instructions on a base, and the settings that
// Rollout applies when it starts a process.
type layers struct {
	base           string
	baseEntrypoint []string
	commands       []string
	settings       registryimage.Settings
}

// unfitError is the reason why Modal cannot build a Dockerfile as layers.
type unfitError struct {
	line int
	why  string
}

func (e *unfitError) Error() string { return fmt.Sprintf("Dockerfile:%d: %s", e.line, e.why) }

func (e *unfitError) failure() error {
	return &environment.Error{
		Kind: environment.KindUnavailable, Err: fmt.Errorf("Modal cannot build this image from layers: %w", e),
		Hint: "set environment.provider_config.registry, such as ghcr.io/org/evals: then the image is built here and pushed there",
	}
}

// planner turns the instructions of a Dockerfile with one stage into layers.
type planner struct {
	layers
	walk    func(visit fs.WalkDirFunc) error // of the context
	context buildcontext.Definition
	args    map[string]string
	lex     *shell.Lex
	env     map[string]string // of RUN and of expansions: with ARGs
	global  map[string]string // ARGs before FROM
	line    int
	copied  int // bytes of all copies
}

// plan reads a Dockerfile. describe returns the settings of its base; nil: they are not needed. An
// unfitError says that only a builder can build it.
func plan(ctx context.Context, definition buildcontext.Definition, args map[string]string, describe func(ref string) (registryimage.Image, error)) (layers, error) {
	parsed, err := parser.Parse(bytes.NewReader(definition.Dockerfile))
	if err != nil {
		return layers{}, err
	}
	walk := func(visit fs.WalkDirFunc) error { return definition.Files.Walk(ctx, "", visit) }
	p := &planner{walk: walk, context: definition, args: args, lex: shell.NewLex(parsed.EscapeToken), env: map[string]string{}}
	for _, node := range parsed.AST.Children {
		p.line = node.StartLine
		parsed, err := instructions.ParseInstructionWithLinter(node, linter.New(&linter.Config{SkipAll: true}))
		if err == nil {
			err = p.add(parsed, strings.TrimSpace(node.Original), describe)
		}
		if unfit := new(unfitError); err != nil && !errors.As(err, &unfit) {
			return layers{}, fmt.Errorf("Dockerfile:%d: %w", p.line, err)
		}
		if err != nil {
			return layers{}, err
		}
	}
	if p.base == "" {
		return layers{}, errors.New("no FROM: name an image to begin with")
	}
	return p.layers, nil
}

func (p *planner) unfit(format string, args ...any) error {
	return &unfitError{p.line, fmt.Sprintf(format, args...)}
}

func (p *planner) add(instruction any, original string, describe func(string) (registryimage.Image, error)) error {
	if stage, ok := instruction.(*instructions.Stage); ok {
		return p.from(stage, describe)
	}
	_, isArg := instruction.(*instructions.ArgCommand)
	if p.base == "" && !isArg {
		return errors.New("only ARG is allowed before the first FROM")
	}
	if command, ok := instruction.(instructions.SupportsSingleWordExpansion); ok && !isArg {
		if err := command.Expand(p.word); err != nil {
			return err
		}
	}
	s := &p.settings
	switch c := instruction.(type) {
	case *instructions.ArgCommand:
		return p.arg(c)
	case *instructions.EnvCommand:
		for _, pair := range c.Env {
			p.set(pair.Key, pair.Value)
		}
	case *instructions.RunCommand:
		return p.run(c, original)
	case *instructions.CopyCommand:
		if c.From != "" || c.Chown != "" || c.Chmod != "" || c.Parents || len(c.ExcludePatterns) > 0 || len(c.SourceContents) > 0 {
			return p.unfit("COPY with options or texts")
		}
		return p.copy(c.SourcePaths, c.DestPath)
	case *instructions.WorkdirCommand:
		s.WorkingDir = p.absolute(c.Path)
		p.commands = append(p.commands, "WORKDIR "+quoted(s.WorkingDir))
	case *instructions.UserCommand:
		s.User = c.User // Rollout starts processes as this user; RUN needs it, too
	case *instructions.EntrypointCommand:
		s.Entrypoint = p.commandLine(c.ShellDependantCmdLine)
	case *instructions.HealthCheckCommand:
		s.Healthcheck = c.Health
	case *instructions.VolumeCommand:
		for _, dir := range c.Volumes {
			s.Volumes = append(s.Volumes, p.absolute(dir))
			p.script("mkdir -p \"$0\"", p.absolute(dir))
		}
	case *instructions.ShellCommand:
		s.Shell = c.Shell
		text, _ := json.Marshal(c.Shell) // strings always have a form in JSON
		p.commands = append(p.commands, "SHELL "+string(text))
	case *instructions.AddCommand:
		return p.unfit("ADD")
	case *instructions.OnbuildCommand:
		return p.unfit("ONBUILD")
	case *instructions.CmdCommand, *instructions.LabelCommand, *instructions.ExposeCommand, *instructions.StopSignalCommand, *instructions.MaintainerCommand:
	default:
		return p.unfit("this instruction")
	}
	return nil
}

func (p *planner) from(stage *instructions.Stage, describe func(string) (registryimage.Image, error)) error {
	ref, err := p.word(stage.BaseName)
	switch {
	case err != nil:
		return err
	case p.base != "":
		return p.unfit("a second stage")
	case stage.Platform != "" || ref == "scratch":
		return p.unfit("a base that is scratch or has a platform")
	}
	p.base, p.global, p.env = ref, p.env, map[string]string{}
	if describe == nil {
		return nil
	}
	base, err := describe(ref)
	if err != nil {
		return fmt.Errorf("base image: %w", err) // a failed pull, which is not the Dockerfile's fault
	}
	p.base, p.settings, p.baseEntrypoint = cmp.Or(base.Ref, ref), base.Settings, base.Entrypoint
	p.settings.Env, p.settings.Volumes = slices.Clone(base.Env), slices.Clone(base.Volumes)
	for _, pair := range base.Env {
		key, value, _ := strings.Cut(pair, "=")
		p.env[key] = value
	}
	return nil
}

func (p *planner) word(text string) (string, error) {
	var env []string
	for key, value := range p.env {
		env = append(env, key+"="+value)
	}
	out, _, err := p.lex.ProcessWord(text, shell.EnvsFromSlice(env))
	return out, err
}

func (p *planner) arg(c *instructions.ArgCommand) error {
	for _, a := range c.Args {
		value, given := p.args[a.Key]
		if !given && a.Value == nil {
			if value, given = p.global[a.Key]; !given {
				continue
			}
		}
		if !given {
			var err error
			if value, err = p.word(*a.Value); err != nil {
				return err
			}
		}
		if _, isEnv := p.variable(a.Key); !isEnv {
			p.env[a.Key] = value
			if p.base != "" {
				p.commands = append(p.commands, "ARG "+a.Key+"="+quoted(value))
			}
		}
	}
	return nil
}

// variable returns the place of a variable of the image.
func (p *planner) variable(key string) (int, bool) {
	i := slices.IndexFunc(p.settings.Env, func(pair string) bool { return strings.HasPrefix(pair, key+"=") })
	return i, i >= 0
}

// set sets a variable of the image. Modal gets it for its builds.
func (p *planner) set(key, value string) {
	p.env[key] = value
	if i, ok := p.variable(key); ok {
		p.settings.Env[i] = key + "=" + value
	} else {
		p.settings.Env = append(p.settings.Env, key+"="+value)
	}
	p.commands = append(p.commands, "ENV "+key+"="+quoted(value))
}

// quoted returns a value that a Dockerfile does not expand.
func quoted(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`).Replace(value) + `"`
}

func (p *planner) run(c *instructions.RunCommand, original string) error {
	if len(instructions.GetMounts(c)) > 0 || len(c.Files) > 0 || len(c.FlagsUsed) > 0 {
		return p.unfit("RUN with options or a here-document")
	}
	if user := p.settings.User; user != "" && user != "root" && user != "0" {
		return p.unfit("RUN as the user %s: Modal builds as root", user)
	}
	_, rest, _ := strings.Cut(original, " ")
	p.commands = append(p.commands, "RUN "+strings.TrimSpace(rest))
	return nil
}

func (p *planner) absolute(dir string) string {
	if path.IsAbs(dir) {
		return path.Clean(dir)
	}
	return path.Join("/", p.settings.WorkingDir, dir)
}

func (p *planner) commandLine(c instructions.ShellDependantCmdLine) []string {
	if !c.PrependShell {
		return c.CmdLine
	}
	if len(p.settings.Shell) > 0 {
		return slices.Concat(p.settings.Shell, c.CmdLine)
	}
	return append([]string{"/bin/sh", "-c"}, c.CmdLine...)
}

// script appends a script for sh with arguments, in a form in which nothing is expanded.
func (p *planner) script(script string, args ...string) {
	text, _ := json.Marshal(append([]string{"/bin/sh", "-c", script}, args...)) // strings always have a form in JSON
	p.commands = append(p.commands, "RUN "+string(text))
}
