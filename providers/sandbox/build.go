//go:build linux

package sandbox

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/org/rollout-action/providers/internal/initclient"
	"github.com/org/rollout-action/providers/sandbox/internal/machine"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/initwire"
	"github.com/org/rollout-action/providers/sandbox/internal/dockerfile"
)

// BuildImage implements environment.Provider.
func (p *Provider) BuildImage(ctx context.Context, opts environment.BuildOptions) (string, error) {
	img, err := p.build(ctx, opts)
	if err != nil {
		return "", err
	}
	return img.Name, nil
}

// build builds an image and records it under its Name.
func (p *Provider) build(ctx context.Context, opts environment.BuildOptions) (*image, error) {
	m := &buildMachine{p: p, progress: opts.Progress}
	var progress func(string)
	if opts.Progress != nil {
		progress = func(line string) {
			if !strings.HasSuffix(line, " (cached)") { // steps from the store are not shown
				opts.Progress(line)
			}
		}
	}
	built, err := dockerfile.Build(ctx, m, dockerfile.Options{
		Context: opts.Context, Args: opts.Args, Fresh: opts.NoCache, Progress: progress,
	})
	if opts.Progress != nil {
		for _, note := range built.Notes {
			opts.Progress(note)
		}
	}
	if err != nil {
		return nil, buildFailed(ctx, opts.Name, err)
	}
	_, id, _ := strings.Cut(built.ID, ":")
	ref := builtPrefix + slug(opts.Name) + ":" + id[:16]
	below, _ := built.Image.Base.(buildBase)
	img := &image{
		ID: built.ID, Name: ref, Layers: built.Image.Layers, Env: built.Image.Env, WorkDir: built.Image.WorkDir, User: built.Image.User, Volumes: built.Image.Volumes,
		Entrypoint: built.Image.Entrypoint, Shell: built.Image.Shell, Healthcheck: built.Image.Healthcheck,
		Host: below.host, Base: below.base, Origin: below.origin, OriginLayers: below.originLayers,
	}
	if err := p.recordImage(ref, img); err != nil {
		return nil, &environment.Error{Kind: environment.KindBuild, Err: fmt.Errorf("record the image: %w", err)}
	}
	return img, nil
}

// buildFailed returns the environment.Error for an error of dockerfile.Build, or the context's
// error if that has ended.
func buildFailed(ctx context.Context, name string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("build %s: %w", name, ctx.Err())
	}
	out := &environment.Error{Kind: environment.KindBuild, Err: fmt.Errorf("build %s: %w", name, err)}
	step, known := new(dockerfile.StepError), new(environment.Error)
	switch {
	case errors.As(err, &step):
		out.Err = fmt.Errorf("build %s: Dockerfile:%d: %s: exit code %d", name, step.Line, step.Instruction, step.ExitCode)
		out.Output = step.Output
	case errors.As(err, &known):
		out.Transient, out.Hint = known.Transient, known.Hint
		out.Err = fmt.Errorf("build %s: %w", name, known.Err)
		if known.Kind == environment.KindPull && known.Transient { // the Dockerfile is not to blame
			out.Kind = environment.KindPull
		}
	}
	return out
}

var notInSlug = regexp.MustCompile(`[^a-z0-9]+`)

// slug returns name with only the characters that references allow.
func slug(name string) string {
	name = strings.Trim(notInSlug.ReplaceAllString(strings.ToLower(name), "-"), "-")
	if len(name) > 60 {
		name = strings.TrimRight(name[:60], "-")
	}
	return cmp.Or(name, "task")
}

// buildBase is the part of a stage's root below its layers: see machine.Image.
type buildBase struct {
	host *hostBase
	base *environment.Base

	origin       string // see image
	originLayers int
}

// buildMachine executes Dockerfiles in sandboxes.
type buildMachine struct {
	p        *Provider
	progress func(string) // may be nil
}

var _ machine.Machine = (*buildMachine)(nil)

// From implements machine.Machine.
func (m *buildMachine) From(ctx context.Context, ref string) (machine.Image, error) {
	img, err := m.p.image(ctx, ref, m.progress)
	if err != nil {
		return machine.Image{}, err
	}
	return machine.Image{
		Layers: img.Layers, Env: img.Env, WorkDir: img.WorkDir, User: img.User, ID: img.ID, Base: buildBase{img.Host, img.Base, img.Origin, img.OriginLayers},
		Entrypoint: img.Entrypoint, Shell: img.Shell, Healthcheck: img.Healthcheck, Volumes: img.Volumes,
	}, nil
}

// Layer implements machine.Machine. A file for each key names the key's layer, so a rebuilt
// layer does not disturb the users of the old one.
func (m *buildMachine) Layer(ctx context.Context, key string, under machine.Image, fresh bool, do func(context.Context, machine.Root) error) (string, bool, error) {
	s := m.p.store
	name := "key-" + digest(key)
	record := s.path("images", name+".json")
	stored := func() (id string, ok bool) {
		return id, readJSON(record, &id) == nil && exists(s.path("l", id))
	}
	if id, ok := stored(); ok && !fresh {
		s.touch("l", id)
		return id, false, nil
	}
	unlock, err := s.lock(ctx, name)
	if err != nil {
		return "", false, err
	}
	defer unlock()
	if id, ok := stored(); ok && !fresh {
		s.touch("l", id)
		return id, false, nil
	}
	id := digest(key + newID())
	if err := m.visit(ctx, under, do, func(d *draft) error { return s.addLayer(d.dir, id) }); err != nil {
		return "", false, err
	}
	return id, true, s.record(record, id)
}

// Visit implements machine.Machine.
func (m *buildMachine) Visit(ctx context.Context, under machine.Image, do func(context.Context, machine.Root) error) error {
	return m.visit(ctx, under, do, func(*draft) error { return nil })
}

// visit calls do with a sandbox on an image, and then keep with the draft that holds its changes.
func (m *buildMachine) visit(ctx context.Context, under machine.Image, do func(context.Context, machine.Root) error, keep func(*draft) error) error {
	if m.p.memoryOnly {
		return &environment.Error{
			Kind: environment.KindBuild, Hint: diskHint(inPod()),
			Err: fmt.Errorf("images cannot be built here: the file system of %s cannot hold overlays", m.p.store.dir),
		}
	}
	d, err := m.p.store.draft()
	if err != nil {
		return err
	}
	defer d.discard()
	below, _ := under.Base.(buildBase)
	setup, err := m.p.setup(&image{Layers: under.Layers, Host: below.host}, d.dir, mountOptions{})
	if err != nil {
		return err
	}
	b, err := launch(ctx, m.p.store.mode, setup, nil)
	if err != nil {
		return startFailed(ctx, err)
	}
	building := &buildRoot{process: b, p: m.p}
	defer building.close()
	if err := do(ctx, building); err != nil {
		return err
	}
	building.close()
	return keep(d)
}

// addLayer moves the changes of the ended sandbox in dir into the store as the layer id.
func (s *store) addLayer(dir, id string) error {
	up := filepath.Join(dir, "up")
	parts, err := os.ReadDir(up)
	if err != nil {
		return err
	}
	for _, part := range parts {
		_ = os.Remove(filepath.Join(up, part.Name())) // if nothing was changed there
	}
	if err := syncLayer(up); err != nil {
		return err
	}
	return s.publish(up, s.path("l", id))
}

// buildRoot is the sandbox in which a step of a Dockerfile runs.
type buildRoot struct {
	process *sandboxProcess
	p       *Provider
	network networking
}

func (b *buildRoot) close() {
	b.process.End()
	b.network.close()
}

// setNetwork attaches or detaches the network before a command. Builds have a public network,
// independent of the trials' network.
func (b *buildRoot) setNetwork(ctx context.Context, offline bool) error {
	switch {
	case b.p.shares() && offline:
		return errors.New("RUN --network=none needs the sandbox's own network: remove network: host from environment.provider_config")
	case b.p.shares():
		return nil
	case offline:
		return b.network.detach(ctx, b.process)
	}
	return b.network.attach(ctx, b.process, b.p.usernet())
}

var _ machine.Root = (*buildRoot)(nil)

// Run implements machine.Root.
func (b *buildRoot) Run(ctx context.Context, c machine.Command) (int, error) {
	if err := b.setNetwork(ctx, c.Offline); err != nil {
		return 0, err
	}
	info, err := b.Stat(ctx, c.Dir)
	if err == nil && !info.Exists {
		err = b.Put(ctx, dirStream(c.Dir))
	}
	if err != nil {
		return 0, err
	}
	sinks := environment.NewSinks(c.Stdout, c.Stderr)
	defer sinks.Close()
	code, err := b.process.Run(ctx, initwire.Command{Args: c.Args, Env: c.Env, Dir: c.Dir, User: c.User, Alone: true}, nil, sinks.Stdout, sinks.Stderr)
	refused := new(initclient.RequestError)
	if errors.As(err, &refused) {
		if refused.Code != 0 {
			_, _ = io.WriteString(sinks.Stderr, refused.Problem+"\n")
			return refused.Code, nil
		}
		if b.p.store.mode.lacksUser(c.User) {
			return 0, fmt.Errorf("%w (%s)", err, oneIDHint)
		}
	}
	return code, err
}

// dirStream returns a tar stream that contains only a directory.
func dirStream(dir string) io.Reader {
	var stream bytes.Buffer
	w := tar.NewWriter(&stream)
	header := &tar.Header{Typeflag: tar.TypeDir, Name: strings.TrimPrefix(dir, "/") + "/", Mode: 0o755, ModTime: time.Now()}
	_ = w.WriteHeader(header) // writing to memory does not fail
	_ = w.Close()
	return &stream
}

// Put implements machine.Root.
func (b *buildRoot) Put(ctx context.Context, stream io.Reader) error {
	source, err := b.process.Put(ctx, false, func(w io.Writer) error {
		_, err := io.Copy(w, stream)
		return err
	})
	return errors.Join(source, err)
}

// Get implements machine.Root.
func (b *buildRoot) Get(ctx context.Context, path string, w io.Writer) error {
	reading, err := b.process.Get(ctx, initwire.Request{Op: initwire.Pack, Path: path}, func(r io.Reader) error {
		_, err := io.Copy(w, r)
		return err
	})
	return errors.Join(reading, err)
}

// Stat implements machine.Root.
func (b *buildRoot) Stat(ctx context.Context, path string) (machine.Info, error) {
	answer, err := b.process.Call(ctx, initwire.Request{Op: initwire.Stat, Path: path})
	if err != nil || answer.Info == nil {
		return machine.Info{}, err
	}
	found := answer.Info
	return machine.Info{Path: found.Path, Exists: found.Exists, Dir: found.Dir, Names: found.Names}, nil
}

// Remove implements machine.Root.
func (b *buildRoot) Remove(ctx context.Context, path string) error {
	_, err := b.process.Call(ctx, initwire.Request{Op: initwire.Remove, Path: path})
	return err
}

// Lookup implements machine.Root.
func (b *buildRoot) Lookup(ctx context.Context, user, group string) (uid, gid int, err error) {
	answer, err := b.process.Call(ctx, initwire.Request{Op: initwire.Identify, User: user, Group: group})
	return answer.UID, answer.GID, err
}
