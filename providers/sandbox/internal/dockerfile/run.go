package dockerfile

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"

	"github.com/org/rollout-action/providers/sandbox/internal/machine"
)

// scriptPath is the path of a heredoc with a "#!" line while it runs. It is not in /tmp: if the
// image lacks that, it would stay in the layer.
const scriptPath = "/.dockerfile-run"

// runCommand is a RUN instruction.
type runCommand struct {
	line    int
	text    string
	args    []string
	script  string // a heredoc with a "#!" line, or empty
	env     environ
	proxy   environ // visible to the command, but not part of the key
	dir     string
	user    string
	offline bool
	mounts  []mount
}

// run plans a RUN instruction.
func (p *planner) run(st *stage, c config, cmd *instructions.RunCommand, line int) (operation, error) {
	if len(cmd.CmdLine) == 0 || cmd.CmdLine[0] == "" && len(cmd.CmdLine) == 1 {
		return nil, errors.New("RUN needs a command")
	}
	if instructions.GetSecurity(cmd) == instructions.SecurityInsecure {
		return nil, errors.New("RUN --security=insecure is not supported: a step has only the rights of an environment. Remove it, or use the provider docker")
	}
	if slices.Contains(cmd.FlagsUsed, "device") {
		return nil, errors.New("RUN --device is not supported: builds get no devices. Remove it, or use the provider docker")
	}
	args, script, err := commandLine(cmd)
	if err != nil {
		return nil, err
	}
	if cmd.PrependShell && script == "" {
		args = c.inShell(strings.Join(args, " "))
	}
	mounts, err := p.mounts(st, c, cmd, line)
	if err != nil {
		return nil, err
	}
	return &runCommand{
		line:    line,
		text:    describe(cmd),
		args:    args,
		script:  script,
		env:     c.run,
		proxy:   p.proxy,
		dir:     c.workDir,
		user:    c.user,
		offline: instructions.GetNetwork(cmd) == instructions.NetworkNone,
		mounts:  mounts,
	}, nil
}

// inShell returns the arguments of an instruction in shell form.
func (c *config) inShell(text string) []string {
	if len(c.shell) == 0 {
		return []string{"/bin/sh", "-c", text}
	}
	return append(slices.Clone(c.shell), text)
}

// commandLine returns the arguments of a RUN with its heredocs. As in BuildKit, a heredoc alone is
// the script; otherwise the shell reads all of them.
func commandLine(cmd *instructions.RunCommand) (args []string, script string, err error) {
	args = cmd.CmdLine
	if len(cmd.Files) == 0 {
		return args, "", nil
	}
	if len(args) != 1 || !cmd.PrependShell {
		return nil, "", errors.New("RUN: a heredoc needs the shell form")
	}
	heredoc, err := parser.ParseHeredoc(args[0])
	if err != nil || heredoc == nil {
		var text strings.Builder
		text.WriteString(args[0])
		for _, file := range cmd.Files {
			text.WriteString("\n" + file.Data + file.Name)
		}
		return []string{text.String()}, "", nil
	}
	data := cmd.Files[0].Data
	if cmd.Files[0].Chomp {
		data = parser.ChompHeredocContent(data)
	}
	if strings.HasPrefix(data, "#!") {
		return []string{scriptPath}, data, nil
	}
	return []string{data}, "", nil
}

// prepare implements operation.
func (r *runCommand) prepare(ctx context.Context, b *builder, k key) (apply, error) {
	k.list(r.args)
	k.text(r.script)
	k.list(r.env.sorted())
	k.text(r.dir, r.user)
	k.flag(r.offline)
	k.number(int64(len(r.mounts)))
	for _, m := range r.mounts {
		if err := m.sum(ctx, b, k); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context, root machine.Root) error { return r.apply(ctx, b, root) }, nil
}

// apply runs the command, and removes its script and mounts.
func (r *runCommand) apply(ctx context.Context, b *builder, root machine.Root) error {
	var placed []madeMount
	for _, m := range r.mounts {
		at, err := m.make(ctx, b, root)
		if err != nil {
			return err
		}
		placed = append(placed, at)
	}
	if r.script != "" {
		if err := putScript(ctx, root, r.script); err != nil {
			return err
		}
	}
	if err := r.exec(ctx, b, root); err != nil {
		return err
	}
	if r.script != "" {
		if err := root.Remove(ctx, scriptPath); err != nil {
			return err
		}
	}
	for i := len(placed) - 1; i >= 0; i-- {
		if err := placed[i].remove(ctx, root); err != nil {
			return err
		}
	}
	return nil
}

// exec runs the command and shows its output.
func (r *runCommand) exec(ctx context.Context, b *builder, root machine.Root) error {
	env := r.env
	for _, name := range r.proxy.Keys() {
		if _, set := env.Get(name); !set {
			value, _ := r.proxy.Get(name)
			env = env.with(name, value)
		}
	}
	out := newOutput(b.progress)
	exit, err := root.Run(ctx, machine.Command{
		Args:    r.args,
		Env:     env.sorted(),
		Dir:     r.dir,
		User:    r.user,
		Offline: r.offline,
		Stdout:  out,
		Stderr:  out,
	})
	out.end()
	if err != nil {
		return fmt.Errorf("%s: %w", r.text, err)
	}
	if exit != 0 {
		return &StepError{Line: r.line, Instruction: cut(r.text, maxFailedText), ExitCode: exit, Output: out.ends()}
	}
	return nil
}

func putScript(ctx context.Context, root machine.Root, script string) error {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: scriptPath[1:], Mode: 0o755, Size: int64(len(script)), ModTime: fixedTime}); err != nil {
		return err
	}
	if _, err := w.Write([]byte(script)); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return root.Put(ctx, &archive)
}
