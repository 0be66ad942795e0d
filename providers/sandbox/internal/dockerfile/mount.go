package dockerfile

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"

	"github.com/org/rollout-action/providers/sandbox/internal/machine"
	"github.com/org/rollout-action/providers/sandbox/internal/sources"
)

// mount is a RUN --mount. It is emulated: a cache and a tmpfs are created directories, a bind is a
// copy. Files and directories created for it are removed after the command, so the layer is the
// same as with a mount. There are two differences: an existing directory stays visible, and changes
// of a command deep in it stay in the layer (files added directly in it do not).
type mount struct {
	kind   instructions.MountType
	target string
	copy   *copyFiles // of a bind
	source string     // of a bind, absolute
	own    owner
	mode   int64
}

// mounts plans the mounts of a RUN instruction.
func (p *planner) mounts(st *stage, c config, cmd *instructions.RunCommand, line int) ([]mount, error) {
	var (
		mounts   []mount
		problems []error
	)
	for _, m := range instructions.GetMounts(cmd) {
		planned, err := p.mount(st, c, m, line)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		mounts = append(mounts, planned)
	}
	return mounts, errors.Join(problems...)
}

func (p *planner) mount(st *stage, c config, m *instructions.Mount, line int) (mount, error) {
	name := "RUN --mount=type=" + string(m.Type)
	switch m.Type {
	case instructions.MountTypeSecret, instructions.MountTypeSSH:
		return mount{}, fmt.Errorf("%s is not supported: builds get no secrets and no keys. Fetch files that need them before the build and COPY them, or pass values that are not secret as an ARG", name)
	}
	if m.Target == "" {
		return mount{}, fmt.Errorf("%s needs a target", name)
	}
	planned := mount{kind: m.Type, target: c.absolute(m.Target), mode: 0o755}
	if planned.target == "/" {
		return mount{}, fmt.Errorf("%s: the target cannot be the root", name)
	}
	if m.Type == instructions.MountTypeBind {
		p.noteOnce(line, name+" is a copy for the time of the command: read-only is not enforced")
		return p.bind(st, planned, m, line)
	}
	if m.From != "" {
		return mount{}, fmt.Errorf("%s,from=%s is not supported: the directory is empty at first; use COPY --from to fill it", name, m.From)
	}
	p.noteOnce(line, name+" is a directory for the time of the command: nothing is kept in it from build to build")
	planned.own, planned.mode = owner{number(m.UID, 0), number(m.GID, 0)}, int64(number(m.Mode, 0o755))
	return planned, nil
}

func number(n *uint64, otherwise int) int {
	if n == nil {
		return otherwise
	}
	return int(*n)
}

func (p *planner) noteOnce(line int, text string) {
	if !p.noted[text] {
		p.noted[text] = true
		p.note(line, "%s", text)
	}
}

// bind plans a bind mount as a copy.
func (p *planner) bind(st *stage, planned mount, m *instructions.Mount, line int) (mount, error) {
	planned.source = path.Join("/", m.Source)
	if sources.HasWildcard(planned.source) {
		return mount{}, fmt.Errorf("RUN --mount=type=bind,source=%s: a mount's source is one file or directory, without wildcards", m.Source)
	}
	planned.copy = &copyFiles{
		name: "RUN --mount=type=bind", line: line, context: m.From == "", dest: planned.target,
		sources: []sourcePath{{root: "/", path: planned.source}},
	}
	if m.From == "" {
		return planned, nil
	}
	var err error
	planned.copy.from, err = p.stages.origin(st, m.From)
	return planned, err
}

// sum adds a mount to a key: its target and, for a bind, its content.
func (m mount) sum(ctx context.Context, b *builder, k key) error {
	k.text(string(m.kind), m.target)
	k.number(m.mode)
	k.number(int64(m.own.uid))
	k.number(int64(m.own.gid))
	if m.copy == nil {
		return nil
	}
	return m.copy.sumSources(ctx, b, k)
}

// madeMount records the changes to undo after the command.
type madeMount struct {
	target  string
	existed bool
	names   []string // earlier entries of the directory
	parents []string // created parents, topmost first
}

// make creates a mount's target in a root file system.
func (m mount) make(ctx context.Context, b *builder, root machine.Root) (madeMount, error) {
	before, err := root.Stat(ctx, m.target)
	if err != nil {
		return madeMount{}, err
	}
	name := "RUN --mount=type=" + string(m.kind)
	if before.Exists && (!before.Dir || m.copy != nil && len(before.Names) > 0) {
		return madeMount{}, fmt.Errorf("%s: %s exists already, and nothing can be mounted over it here: choose another target, or use COPY", name, m.target)
	}
	parents, err := missingDirs(ctx, root, path.Dir(before.Path))
	if err != nil {
		return madeMount{}, fmt.Errorf("%s: %w", name, err)
	}
	placed := madeMount{target: before.Path, existed: before.Exists, names: before.Names, parents: parents}
	if m.copy != nil {
		return placed, m.fill(ctx, b, root)
	}
	if before.Exists {
		return placed, nil
	}
	return placed, put(ctx, root, func(w *writer) error {
		for _, dir := range parents {
			if err := w.dir(dir); err != nil {
				return err
			}
		}
		w.own, w.change = &m.own, modeChange{absolute: true, bits: m.mode}
		return w.dir(before.Path)
	})
}

// fill copies the source of a bind.
func (m mount) fill(ctx context.Context, b *builder, root machine.Root) error {
	return b.open(ctx, m.copy.context, m.copy.from, func(ctx context.Context, t sources.Tree) error {
		items, err := m.copy.fromTree(ctx, b, t)
		if err != nil {
			return err
		}
		return m.copy.copyInto(ctx, root, items)
	})
}

// remove undoes the changes of make.
func (p madeMount) remove(ctx context.Context, root machine.Root) error {
	if p.existed {
		after, err := root.Stat(ctx, p.target)
		if err != nil {
			return err
		}
		for _, name := range after.Names {
			if slices.Contains(p.names, name) {
				continue
			}
			if err := root.Remove(ctx, path.Join(p.target, name)); err != nil {
				return err
			}
		}
		return nil
	}
	if err := root.Remove(ctx, p.target); err != nil {
		return err
	}
	for _, dir := range slices.Backward(p.parents) {
		at, err := root.Stat(ctx, dir)
		if err != nil {
			return err
		}
		if len(at.Names) > 0 || !at.Dir || !strings.HasPrefix(p.target, dir) {
			return nil
		}
		if err := root.Remove(ctx, dir); err != nil {
			return err
		}
	}
	return nil
}
