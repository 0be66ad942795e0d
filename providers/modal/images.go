package modal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	sdk "github.com/modal-labs/modal-client/go"
	pb "github.com/modal-labs/modal-client/go/proto/modal_proto"
	"google.golang.org/grpc"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/buildcontext"
	"github.com/org/rollout-action/providers/internal/buildkit"
	"github.com/org/rollout-action/providers/internal/hosted"
	"github.com/org/rollout-action/providers/internal/registryimage"
)

// image is an image of environments: settings that Rollout applies, and files that Modal has.
type image struct {
	ref      string
	id       string // identifies the content
	settings registryimage.Settings
	recipe   *sdk.Image
	made     *sdk.Image // nil: Modal was not asked for it yet
}

// layersRegistry begins the references of images that Modal builds. No registry has such a name.
const layersRegistry = "modal.invalid/"

// find returns an image by its reference: one that was built, or one in a registry.
func (p *Provider) find(ctx context.Context, ref string) (image, error) {
	p.mu.Lock()
	known, ok := p.built[ref]
	p.mu.Unlock()
	switch {
	case ok:
		return known, nil
	case strings.HasPrefix(ref, layersRegistry):
		return image{}, &environment.Error{Kind: environment.KindStart, Err: fmt.Errorf("image %s: %w", ref, environment.ErrNoImage)}
	}
	found, err := p.images.Find(ctx, ref)
	if err != nil {
		return image{}, err
	}
	base, err := p.base(ctx, found.Ref)
	if err != nil {
		return image{}, err
	}
	made := image{ref: ref, id: found.Digest, settings: found.Settings}
	made.recipe = base.DockerfileCommands(withoutEntrypoint(found.Settings), nil)
	return made, nil
}

// describe returns the description of an image on which another one is built.
func (p *Provider) describe(ctx context.Context, ref string) (registryimage.Image, error) {
	if strings.HasPrefix(ref, layersRegistry) {
		own, err := p.find(ctx, ref)
		return registryimage.Image{Ref: ref, Settings: own.settings}, err
	}
	return p.images.Config(ctx, ref)
}

// base returns an image in a registry as Modal knows it.
func (p *Provider) base(ctx context.Context, ref string) (*sdk.Image, error) {
	if p.config.registrySecret == "" {
		return p.client.Images.FromRegistry(ref, nil), nil
	}
	secret, err := p.client.Secrets.FromName(ctx, p.config.registrySecret, nil)
	if err != nil {
		return nil, failed(ctx, environment.KindPull, "find the secret "+p.config.registrySecret+" of registry_secret", err)
	}
	return p.client.Images.FromRegistry(ref, &sdk.ImageFromRegistryParams{Secret: secret}), nil
}

// withoutEntrypoint returns the instruction that keeps Modal from running an image's ENTRYPOINT:
// the guest does.
func withoutEntrypoint(s registryimage.Settings) []string {
	if len(s.Entrypoint) == 0 {
		return nil
	}
	return []string{"ENTRYPOINT []"}
}

// make makes an image on Modal if it is missing there. Callers at the same time share one attempt.
func (p *Provider) make(ctx context.Context, i image, kind environment.Kind, progress func(string)) (image, error) {
	if i.made != nil {
		return i, nil
	}
	doing := "make image " + i.ref
	log := &buildLog{}
	err := p.flights.Do(ctx, i.ref+" "+i.id, progress, func(ctx context.Context, tell func(string)) error {
		log.lines.Progress = func(line string) { tell(hosted.OneLine(line)) }
		made, err := i.recipe.Build(context.WithValue(ctx, buildLogKey{}, log), p.app, nil)
		if err != nil {
			return err
		}
		i.made = made
		p.mu.Lock()
		defer p.mu.Unlock()
		p.built[i.ref] = i
		return nil
	})
	if err == nil { // maybe another caller's attempt
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.built[i.ref], nil
	}
	failure := failed(ctx, kind, doing, err)
	if known := new(environment.Error); errors.As(failure, &known) {
		known.Output = log.end()
	}
	return image{}, failure
}

// PullImage implements environment.Provider.
func (p *Provider) PullImage(ctx context.Context, ref string, progress func(string)) error {
	i, err := p.find(ctx, ref)
	if err == nil {
		_, err = p.make(ctx, i, environment.KindPull, progress)
	}
	return hosted.FailedPull(err)
}

// ImageID implements environment.ImageIdentifier.
func (p *Provider) ImageID(ctx context.Context, ref string) (string, error) {
	i, err := p.find(ctx, ref)
	if err != nil {
		return "", err
	}
	if i.made != nil {
		return i.made.ImageID, nil
	}
	return i.id, nil
}

// CheckPull implements environment.ImageChecker.
func (p *Provider) CheckPull(ctx context.Context, ref string) error {
	return p.images.CheckPull(ctx, ref)
}

// CheckBuild implements environment.ImageChecker: what Modal cannot build from layers needs a
// registry.
func (p *Provider) CheckBuild(ctx context.Context, opts environment.BuildOptions) error {
	definition, err := buildcontext.Read(opts.Context)
	if err != nil {
		return nil //nolint:nilerr // BuildImage reports it
	}
	_, err = plan(ctx, definition, opts.Args, nil)
	switch unfit := new(unfitError); {
	case !errors.As(err, &unfit):
		return nil
	case p.config.registry == "":
		return unfit.failure()
	}
	return p.images.CheckBuild(ctx, opts)
}

// BuildImage implements environment.Provider: Modal builds a Dockerfile as a layer of an image. If
// the Dockerfile or its context does not fit, the image is built here and pushed to the registry of
// the configuration.
func (p *Provider) BuildImage(ctx context.Context, opts environment.BuildOptions) (string, error) {
	definition, err := buildcontext.Read(opts.Context)
	if err != nil {
		e := &environment.Error{Kind: environment.KindBuild, Err: fmt.Errorf("read the build context: %w", err)}
		if errors.Is(err, fs.ErrNotExist) {
			e.Hint = "the environment directory needs a Dockerfile"
		}
		return "", e
	}
	l, err := plan(ctx, definition, opts.Args, func(ref string) (registryimage.Image, error) { return p.describe(ctx, ref) })
	if unfit := new(unfitError); errors.As(err, &unfit) {
		if p.config.registry == "" {
			return "", unfit.failure()
		}
		return p.images.Build(ctx, opts)
	}
	if err != nil {
		return "", failed(ctx, environment.KindBuild, "read the Dockerfile", err)
	}
	key, err := definition.Digest(ctx, opts.Args, "linux/"+architecture+" modal "+l.base)
	if err != nil {
		return "", failed(ctx, environment.KindBuild, "read the build context", err)
	}
	i := image{ref: layersRegistry + buildcontext.ImageName(opts.Name) + ":" + key[:16], id: key, settings: l.settings}
	commands := slices.Concat(l.commands, withoutEntrypoint(registryimage.Settings{Entrypoint: l.baseEntrypoint}))
	var base *sdk.Image
	if own, err := p.find(ctx, l.base); err == nil && own.made != nil {
		base = own.made
	} else if base, err = p.base(ctx, l.base); err != nil {
		return "", err
	}
	i.recipe = base.DockerfileCommands(commands, &sdk.ImageDockerfileCommandsParams{ForceBuild: opts.NoCache})
	if opts.NoCache {
		i.id += " anew"
	}
	if _, err := p.make(ctx, i, environment.KindBuild, opts.Progress); err != nil {
		return "", err
	}
	return i.ref, nil
}

// buildLog collects what a build prints: Modal's client drops it.
type buildLog struct {
	mu    sync.Mutex
	lines buildkit.Lines
}

type buildLogKey struct{}

func (l *buildLog) add(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines.Text(text)
}

// end returns the first and the last lines.
func (l *buildLog) end() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines.End()
	return l.lines.Tail()
}

// noteBuildLog gives the output of builds to the buildLog of their context.
func noteBuildLog(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := streamer(ctx, desc, conn, method, opts...)
	if log, ok := ctx.Value(buildLogKey{}).(*buildLog); ok && err == nil {
		return &loggedStream{stream, log}, nil
	}
	return stream, err
}

type loggedStream struct {
	grpc.ClientStream
	log *buildLog
}

// RecvMsg implements grpc.ClientStream.
func (s *loggedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if joined, ok := m.(*pb.ImageJoinStreamingResponse); ok && err == nil {
		for _, entry := range joined.GetTaskLogs() {
			s.log.add(entry.GetData())
		}
	}
	return err
}
