package dockerfile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"

	"github.com/org/rollout-action/providers/sandbox/internal/machine"
	"github.com/org/rollout-action/providers/sandbox/internal/sources"
)

// Options describes a build.
type Options struct {
	// Context is the directory with the Dockerfile, and .dockerignore or Dockerfile.dockerignore.
	// Links in it are copied as links and never followed out of it.
	Context fs.FS
	// Args are build arguments. Arguments without an ARG have no effect, apart from proxies.
	Args map[string]string
	// Fresh rebuilds every layer.
	Fresh bool
	// Progress, if not nil, gets lines for display, without line ends. Control characters in a
	// command's output are kept.
	Progress func(line string)
	// Platform is "linux/amd64" or the like; empty is linux on this machine's architecture.
	Platform string
	// Target is the stage to build, by name or number; empty is the last.
	Target string
	// HTTP downloads the files of ADD; nil is http.DefaultClient.
	HTTP *http.Client
}

// Result is the result of a build.
type Result struct {
	// Image is the image of the target stage. Its Env has no build arguments.
	Image machine.Image
	// ID is a digest ("sha256:…") of the image's inputs and its configuration: the same content
	// gives the same ID, whether its layers were stored, made or rebuilt.
	ID string
	// Notes list instructions without effect or with a different one, one sentence each, with the
	// line: "Dockerfile:7: …".
	Notes []string
}

// Build executes a Dockerfile. It first finds all problems that need no execution, and makes no
// layer if there is one. Its errors are Problems and StepErrors; other errors have the line, too.
// If ctx ends, its error is in the chain. The result has Notes also with an error.
func Build(ctx context.Context, m machine.Machine, opts Options) (Result, error) {
	b := &builder{
		machine:  m,
		context:  opts.Context,
		fresh:    opts.Fresh,
		progress: opts.Progress,
		http:     opts.HTTP,
		images:   map[string]machine.Image{},
		built:    map[int]machine.Image{},
	}
	if b.progress == nil {
		b.progress = func(string) {}
	}
	if b.http == nil {
		b.http = http.DefaultClient
	}
	image, err := b.run(ctx, opts)
	if b.scratch != "" {
		err = errors.Join(err, os.RemoveAll(b.scratch))
	}
	if err != nil && ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = errors.Join(err, ctx.Err())
	}
	if err != nil {
		return Result{Notes: b.notes}, err
	}
	return Result{Image: image, ID: identity(image), Notes: b.notes}, nil
}

// identity returns the digest of an image and its configuration, for Result.ID.
func identity(image machine.Image) string {
	k := key{sha256.New()}
	k.text("image", image.ID, image.WorkDir, image.User)
	k.list(environ(image.Env).sorted())
	k.list(image.Shell)
	k.list(image.Entrypoint)
	if len(image.Volumes) > 0 {
		k.list(image.Volumes)
	}
	if h := image.Healthcheck; h != nil {
		k.list(h.Test)
		for _, n := range []int64{int64(h.Interval), int64(h.Timeout), int64(h.StartPeriod), int64(h.StartInterval), int64(h.Retries)} {
			k.number(n)
		}
	}
	return "sha256:" + hex.EncodeToString(k.sum.Sum(nil))
}

// operation is the work of a step.
type operation interface {
	// prepare adds all inputs of the layer to the key. It returns the function that makes the
	// layer.
	prepare(ctx context.Context, b *builder, k key) (apply, error)
}

// apply makes the changes of a step in a root file system.
type apply func(context.Context, machine.Root) error

// builder is the state of one build.
type builder struct {
	machine  machine.Machine
	context  fs.FS
	fresh    bool
	progress func(string)
	http     *http.Client

	stages  stages
	images  map[string]machine.Image // by reference
	built   map[int]machine.Image    // by stage
	files   *sources.Context         // the context, once a step copies from it
	scratch string                   // a directory for downloads, or empty
	notes   []string
}

// run plans the build, and then executes the plan.
func (b *builder) run(ctx context.Context, opts Options) (machine.Image, error) {
	platform, err := readPlatform(opts.Platform)
	if err != nil {
		return machine.Image{}, err
	}
	src, err := read(opts.Context)
	b.notes = src.notes
	if err != nil {
		return machine.Image{}, err
	}
	p, err := newPlanner(src, opts.Args, platform, opts.Target)
	if err != nil {
		return machine.Image{}, err
	}
	if b.stages, err = resolve(src, p.global, platform); err != nil {
		return machine.Image{}, err
	}
	p.stages = b.stages
	target, err := b.stages.target(opts.Target)
	if err != nil {
		return machine.Image{}, err
	}
	order, err := b.stages.buildOrder(target)
	if err != nil {
		return machine.Image{}, err
	}
	plans, err := b.plan(ctx, p, order)
	b.notes = p.notes
	if err != nil {
		return machine.Image{}, err
	}
	for _, plan := range plans {
		if err := b.stage(ctx, plan); err != nil {
			return machine.Image{}, err
		}
	}
	return b.built[target], nil
}

// stagePlan is a stage with all variables expanded.
type stagePlan struct {
	*stage
	steps []step
	end   config
}

// plan plans the stages in order. It needs the configurations of their images.
func (b *builder) plan(ctx context.Context, p *planner, order []int) ([]stagePlan, error) {
	var (
		plans    []stagePlan
		problems []error
		ends     = map[int]config{}
	)
	for _, i := range order {
		st := b.stages[i]
		start, ok := ends[st.base]
		if st.base < 0 {
			image, err := b.from(ctx, st.image)
			if err != nil {
				return nil, at(st.line, fmt.Errorf("FROM %s: %w", st.image, err))
			}
			start, ok = initialConfig(image), true
		}
		if !ok {
			return nil, fmt.Errorf("stage %d is not planned before stage %d", st.base, i)
		}
		steps, end, err := p.stage(st, start)
		if err != nil {
			problems = append(problems, err)
		}
		ends[i] = end
		plans = append(plans, stagePlan{stage: st, steps: steps, end: end})
	}
	p.noteUnused()
	return plans, joinByLine(problems)
}

// stage builds one stage.
func (b *builder) stage(ctx context.Context, plan stagePlan) error {
	image := b.built[plan.base]
	total, done := len(plan.steps), 0
	if plan.base < 0 {
		image = b.images[plan.image]
		total++
		done++
		b.progress(fmt.Sprintf("[%s%d/%d] FROM %s", plan.label, done, total, plan.image))
	}
	for _, s := range plan.steps {
		done++
		label := fmt.Sprintf("[%s%d/%d] %s", plan.label, done, total, s.text)
		next, err := b.step(ctx, s, image, label)
		if err != nil {
			return at(s.line, err)
		}
		image = next
	}
	image.Env, image.WorkDir = slices.Clone(plan.end.image), plan.end.workDir
	image.User, image.Shell = plan.end.user, slices.Clone(plan.end.shell)
	image.Volumes = plan.end.volumes
	image.Entrypoint, image.Healthcheck = slices.Clone(plan.end.entrypoint), plan.end.healthcheck
	b.built[plan.index] = image
	return nil
}

// step returns the image with the layer of one step, stored or new.
func (b *builder) step(ctx context.Context, s step, under machine.Image, label string) (machine.Image, error) {
	if err := ctx.Err(); err != nil {
		return machine.Image{}, err
	}
	k := newKey(fmt.Sprintf("%T", s.op))
	k.text(under.ID)
	do, err := s.op.prepare(ctx, b, k)
	if err != nil {
		return machine.Image{}, err
	}
	var failed error
	id, made, err := b.machine.Layer(ctx, k.String(), under, b.fresh, func(ctx context.Context, root machine.Root) error {
		b.progress(label)
		failed = do(ctx, root)
		return failed
	})
	if failed != nil && errors.Is(err, failed) {
		err = failed // the machine's part of the error does not help the Dockerfile's author
	}
	if err != nil {
		return machine.Image{}, err
	}
	if !made {
		b.progress(label + " (cached)")
	}
	under.Layers = append(slices.Clone(under.Layers), id)
	under.ID = k.String()
	return under, nil
}

// from gets an image from the machine, once for each reference.
func (b *builder) from(ctx context.Context, ref string) (machine.Image, error) {
	if image, ok := b.images[ref]; ok {
		return image, nil
	}
	image, err := b.machine.From(ctx, ref)
	if err == nil {
		b.images[ref] = image
	}
	return image, err
}

// image returns the image that an origin names.
func (b *builder) image(ctx context.Context, o origin) (machine.Image, error) {
	if o.stage >= 0 {
		return b.built[o.stage], nil
	}
	return b.from(ctx, o.image)
}

// nameOf returns the display name of an origin.
func (b *builder) nameOf(o origin) string {
	if o.stage < 0 {
		return o.image
	}
	if name := b.stages[o.stage].name; name != "" {
		return name
	}
	return fmt.Sprint(o.stage)
}

// open calls do with the files of the build context (own), or else of an origin.
func (b *builder) open(ctx context.Context, own bool, o origin, do func(context.Context, sources.Tree) error) error {
	if !own {
		image, err := b.image(ctx, o)
		if err != nil {
			return err
		}
		return b.machine.Visit(ctx, image, func(ctx context.Context, root machine.Root) error { return do(ctx, root) })
	}
	if b.files == nil {
		f, err := sources.ReadContext(ctx, b.context)
		if err != nil {
			return err
		}
		b.files = f
	}
	return do(ctx, b.files)
}

// notef adds a note, unless it was added before.
func (b *builder) notef(op *copyFiles, format string, args ...any) {
	note := position(op.line) + fmt.Sprintf(format, args...)
	if !slices.Contains(b.notes, note) {
		b.notes = append(b.notes, note)
	}
}
