package dockerfile

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/containerd/platforms"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"

	"github.com/org/rollout-action/providers/sandbox/internal/machine"
)

// defaultPath is PATH if the image does not set it, as in BuildKit.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// config holds the settings that instructions change, apart from files.
type config struct {
	image   environ // the image's environment
	run     environ // the environment for RUN and expansion: includes ARGs
	workDir string
	user    string
	shell   []string

	entrypoint  []string
	healthcheck *dockerspec.HealthcheckConfig
	volumes     []string
}

// step is an instruction that makes a layer.
type step struct {
	line int
	text string
	op   operation
}

// planner turns instructions into steps. It expands all variables, so steps need no environment.
type planner struct {
	stages stages
	lex    *shell.Lex
	args   map[string]string // given by the caller
	global environ           // of ARGs before the first FROM, and the platform's
	proxy  environ

	used  map[string]bool // caller's arguments with an ARG
	noted map[string]bool // instructions that have a note
	notes []string
}

// newPlanner returns a planner. It evaluates the ARGs before the first FROM.
func newPlanner(src source, args map[string]string, platform platforms.Platform, target string) (*planner, error) {
	p := &planner{
		lex:    shell.NewLex(src.escape),
		args:   args,
		proxy:  proxies(args),
		used:   map[string]bool{},
		noted:  map[string]bool{},
		notes:  src.notes,
		global: platformArgs(platform, target),
	}
	for _, name := range p.global.Keys() {
		if value, ok := args[name]; ok {
			p.global = p.global.with(name, value)
			p.used[name] = true
		}
	}
	var problems []error
	for _, command := range src.global {
		for _, arg := range command.Args {
			value, ok, err := p.value(arg, p.global)
			if err != nil {
				problems = append(problems, at(firstLine(command.Location()), err))
			}
			if ok {
				p.global = p.global.with(arg.Key, value)
			}
		}
	}
	return p, joinByLine(problems)
}

// value returns the value of an ARG: the caller's, or else its default.
func (p *planner) value(arg instructions.KeyValuePairOptional, env environ) (value string, ok bool, err error) {
	if value, ok = p.args[arg.Key]; ok {
		p.used[arg.Key] = true
		return value, true, nil
	}
	if arg.Value == nil {
		return "", false, nil
	}
	value, _, err = p.lex.ProcessWord(*arg.Value, env)
	return value, err == nil, err
}

// proxies returns the proxy variables that every RUN gets without an ARG, in upper and lower case.
func proxies(args map[string]string) environ {
	var env environ
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if isProxy(name) {
			env = env.with(strings.ToUpper(name), args[name]).with(strings.ToLower(name), args[name])
		}
	}
	return env
}

func isProxy(name string) bool {
	switch strings.ToLower(name) {
	case "http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy":
		return true
	}
	return false
}

// initialConfig returns the configuration at the beginning of a stage on an image.
func initialConfig(image machine.Image) config {
	env := normalize(image.Env)
	if _, ok := env.Get("PATH"); !ok {
		env = env.with("PATH", defaultPath)
	}
	return config{
		image: env, run: env, workDir: path.Join("/", image.WorkDir), user: image.User, shell: image.Shell,
		entrypoint: image.Entrypoint, healthcheck: image.Healthcheck,
		volumes: image.Volumes,
	}
}

// stage plans one stage. Its error has every problem of the stage.
func (p *planner) stage(st *stage, c config) ([]step, config, error) {
	var (
		steps    []step
		problems []error
	)
	for _, command := range st.commands {
		line := firstLine(command.Location())
		op, err := p.command(st, &c, command, line)
		if err != nil {
			problems = append(problems, at(line, err))
		}
		if op != nil {
			steps = append(steps, step{line: line, text: describe(command), op: op})
		}
	}
	return steps, c, joinByLine(problems)
}

// describe returns an instruction for progress lines.
func describe(command instructions.Command) string {
	code := command.Name()
	if c, ok := command.(fmt.Stringer); ok {
		code = c.String()
	}
	text := oneLine(code)
	if run, ok := command.(*instructions.RunCommand); ok && len(run.Files) > 0 {
		text = cut(text+" ("+firstTextLine(run.Files[0].Data)+")", maxText)
	}
	return text
}

// command plans one instruction; op is nil if it makes no layer.
func (p *planner) command(st *stage, c *config, command instructions.Command, line int) (op operation, err error) {
	if err := p.expand(command, c.run); err != nil {
		return nil, err
	}
	switch cmd := command.(type) {
	case *instructions.ArgCommand:
		return nil, p.arg(c, cmd)
	case *instructions.EnvCommand:
		return nil, c.env(cmd)
	case *instructions.UserCommand:
		c.user = cmd.User
	case *instructions.ShellCommand:
		c.shell = cmd.Shell
	case *instructions.EntrypointCommand:
		c.entrypoint = cmd.CmdLine
		if cmd.PrependShell {
			c.entrypoint = c.inShell(strings.Join(cmd.CmdLine, " "))
		}
	case *instructions.HealthCheckCommand:
		c.healthcheck = cmd.Health
	case *instructions.VolumeCommand:
		c.volumes = slices.Concat(c.volumes, cmd.Volumes)
		slices.Sort(c.volumes)
		c.volumes = slices.Compact(c.volumes)
		return nil, p.noEffect(command, line)
	case *instructions.WorkdirCommand:
		return c.changeDir(cmd.Path), nil
	case *instructions.RunCommand:
		return p.run(st, *c, cmd, line)
	case *instructions.CopyCommand:
		return p.copy(st, *c, cmd, line)
	case *instructions.AddCommand:
		return p.add(*c, cmd, line)
	default:
		return nil, p.noEffect(command, line)
	}
	return nil, nil
}

// expand replaces the variables in an instruction with their values.
func (p *planner) expand(command instructions.Command, env environ) error {
	if _, ok := command.(*instructions.ArgCommand); ok {
		return nil // expanded one by one, each with the values of the ones before
	}
	if c, ok := command.(instructions.SupportsSingleWordExpansion); ok {
		if err := c.Expand(func(word string) (string, error) {
			text, _, err := p.lex.ProcessWord(word, env)
			return text, err
		}); err != nil {
			return err
		}
	}
	if c, ok := command.(instructions.SupportsSingleWordExpansionRaw); ok {
		return c.ExpandRaw(func(word string) (string, error) {
			lex := shell.NewLex('\\')
			lex.SkipProcessQuotes = true
			text, _, err := lex.ProcessWord(word, env)
			return text, err
		})
	}
	return nil
}

// arg declares the arguments of a stage. An argument without a default inherits that of the ARG
// before the first FROM.
func (p *planner) arg(c *config, cmd *instructions.ArgCommand) error {
	for _, arg := range cmd.Args {
		value, ok, err := p.value(arg, c.run)
		if err != nil {
			return err
		}
		if !ok {
			value, ok = p.global.Get(arg.Key)
		}
		if ok {
			// The later of ENV and ARG wins. The reference says that ENV always does, but BuildKit
			// does this.
			c.run = c.run.with(arg.Key, value)
		}
	}
	return nil
}

// env sets the variables of ENV.
func (c *config) env(cmd *instructions.EnvCommand) error {
	for _, pair := range cmd.Env {
		if pair.Key == "" || strings.Contains(pair.Key, "=") {
			return fmt.Errorf("ENV: %q is not the name of a variable", pair.Key)
		}
		c.image = c.image.with(pair.Key, pair.Value)
		c.run = c.run.with(pair.Key, pair.Value)
	}
	return nil
}

// changeDir sets the directory of WORKDIR.
func (c *config) changeDir(dir string) operation {
	if !path.IsAbs(dir) {
		dir = path.Join(c.workDir, dir)
	}
	c.workDir = path.Clean(dir)
	if c.workDir == "/" {
		return nil
	}
	return makeDir{path: c.workDir, user: c.user}
}

// absolute returns the absolute path of COPY's destination or of a mount's target, without a
// trailing slash.
func (c *config) absolute(name string) string {
	if !path.IsAbs(name) {
		name = path.Join(c.workDir, name)
	}
	return path.Clean(name)
}

// noEffect adds a note that an instruction is ignored, once for each kind of instruction. It
// returns an error for an unknown instruction.
func (p *planner) noEffect(command instructions.Command, line int) error {
	name := upper(command.Name())
	why, ok := map[string]string{
		"CMD":        "is not run: trials run their own scripts",
		"EXPOSE":     "has no effect: programs in an environment reach its ports anyway",
		"LABEL":      "has no effect: nothing here reads labels",
		"MAINTAINER": "has no effect: nothing here reads it",
		"ONBUILD":    "has no effect: no image is built on this one",
		"STOPSIGNAL": "has no effect: an environment is stopped as a whole",
		"VOLUME":     "makes no volume: the directory is part of the environment",
	}[name]
	if !ok {
		return fmt.Errorf("%s is not supported", name)
	}
	if !p.noted[name] {
		p.noted[name] = true
		p.note(line, "%s %s", name, why)
	}
	return nil
}

func (p *planner) note(line int, format string, args ...any) {
	p.notes = append(p.notes, position(line)+fmt.Sprintf(format, args...))
}

// noteUnused adds a note for each argument of the caller that no ARG declares.
func (p *planner) noteUnused() {
	for _, name := range slices.Sorted(maps.Keys(p.args)) {
		if !p.used[name] && !isProxy(name) {
			p.note(0, "the build argument %s has no effect: no ARG that is used declares it", name)
		}
	}
}
