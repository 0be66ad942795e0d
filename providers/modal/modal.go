package modal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"

	sdk "github.com/modal-labs/modal-client/go"
	"google.golang.org/grpc"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/flight"
	"github.com/org/rollout-action/providers/internal/hosted"
	"github.com/org/rollout-action/providers/internal/registryimage"
)

// Name selects this provider in environment.type.
const Name = "modal"

// Options are the settings of a Provider in addition to environment.provider_config.
type Options struct {
	// Clean: only List and Remove are called. Nothing is created.
	Clean bool
	// Builders build images for a registry.
	Builders []registryimage.Builder
	// Program returns the program of package podinit that sandboxes run; nil: the program for this
	// release.
	Program func() ([]byte, error)
	// Images describes images in registries; nil: the registries.
	Images hosted.ImageSource
	// Dial, if not nil, replaces this machine's network for the proxy of an allowlist.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Provider runs environments in sandboxes of an app. See environment.Provider for the contract of
// its methods.
type Provider struct {
	config  config
	options Options
	client  *sdk.Client
	app     *sdk.App
	images  hosted.Images
	program *hosted.Program
	flights flight.Group

	mu    sync.Mutex
	built map[string]image // by reference
}

var (
	_ environment.Provider        = (*Provider)(nil)
	_ environment.GPUProvider     = (*Provider)(nil)
	_ environment.ImageChecker    = (*Provider)(nil)
	_ environment.ImageIdentifier = (*Provider)(nil)
)

// New connects to Modal with the token of the user. cfg is environment.provider_config, as accepted
// by Check. A service that cannot be used is a KindUnavailable with a hint.
func New(ctx context.Context, cfg map[string]any, opts Options) (*Provider, error) {
	c, problems := readConfig(cfg)
	if len(problems) > 0 {
		return nil, &environment.Error{Kind: environment.KindUnavailable, Err: fmt.Errorf("environment.provider_config.%s: %s", problems[0].Path, problems[0].Message)}
	}
	if !configured() {
		return nil, &environment.Error{
			Kind: environment.KindUnavailable, Unconfigured: true, Err: errors.New("there is no token of Modal"),
			Hint: "make one at https://modal.com/settings/tokens, and set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET",
		}
	}
	client, err := sdk.NewClientWithOptions(&sdk.ClientParams{
		Environment: c.environment, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		GRPCStreamInterceptors: []grpc.StreamClientInterceptor{noteBuildLog},
	})
	if err != nil {
		return nil, &environment.Error{Kind: environment.KindUnavailable, Err: fmt.Errorf("use the configuration of Modal: %w", err), Hint: "see ~/.modal.toml and the variables MODAL_*"}
	}
	p := &Provider{config: c, options: opts, client: client, program: hosted.NewProgram(architecture, opts.Program), built: map[string]image{}}
	if err := p.connect(ctx); err != nil {
		client.Close()
		return nil, err
	}
	return p, nil
}

// connect checks the token, and creates the app if needed.
func (p *Provider) connect(ctx context.Context) error {
	app, err := p.client.Apps.FromName(ctx, cmp.Or(p.config.app, defaultApp), &sdk.AppFromNameParams{CreateIfMissing: !p.options.Clean})
	if p.options.Clean && errors.As(err, new(sdk.NotFoundError)) {
		app, err = nil, nil
	}
	if err != nil {
		return failed(ctx, environment.KindUnavailable, "connect to Modal", err)
	}
	p.app = app
	p.images, err = hosted.OpenImages(p.options.Images, architecture, registryimage.Config{
		Registry: p.config.registry, Builder: p.config.builder, Builders: p.options.Builders,
	})
	return err
}

// architecture is that of Modal's machines, as Go names it.
const architecture = "amd64"

// configured reports whether this machine names a token. The client reads both places.
func configured() bool {
	for _, name := range []string{"MODAL_TOKEN_ID", "MODAL_OAUTH_REFRESH_TOKEN"} {
		if os.Getenv(name) != "" {
			return true
		}
	}
	home, _ := os.UserHomeDir()
	_, err := os.Stat(cmp.Or(os.Getenv("MODAL_CONFIG_PATH"), filepath.Join(home, ".modal.toml")))
	return err == nil
}

// Name implements environment.Provider.
func (p *Provider) Name() string { return Name }

// Close implements environment.Provider.
func (p *Provider) Close() error {
	p.client.Close()
	return p.images.Close()
}

// ChoosesGPUs implements environment.GPUProvider.
func (*Provider) ChoosesGPUs() bool { return true }

// List implements environment.Provider. If the configuration names no app, it lists those of all
// apps: rollout clean knows no configuration.
func (p *Provider) List(ctx context.Context) ([]environment.Listed, error) {
	const doing = "list sandboxes of Modal"
	params := &sdk.SandboxListParams{Tags: map[string]string{hosted.TagOurs: "1"}}
	if p.config.app != "" {
		if p.app == nil {
			return nil, nil
		}
		params.AppID = p.app.AppID
	}
	all, err := p.client.Sandboxes.List(ctx, params)
	if err != nil {
		return nil, failed(ctx, environment.KindUnavailable, doing, err)
	}
	var listed []environment.Listed
	for sandbox, err := range all {
		if err != nil {
			return nil, failed(ctx, environment.KindUnavailable, doing, err)
		}
		tags, err := sandbox.GetTags(ctx, nil)
		if isGone(err) {
			continue // it ended meanwhile: lists lag
		}
		if err != nil {
			return nil, failed(ctx, environment.KindUnavailable, doing, err)
		}
		listed = append(listed, environment.Listed{ID: sandbox.SandboxID, Labels: hosted.LabelsOf(tags), Kept: tags[hosted.TagKept] != ""})
	}
	return listed, nil
}

// Remove implements environment.Provider.
func (p *Provider) Remove(ctx context.Context, id string) error {
	sandbox, err := p.client.Sandboxes.FromID(ctx, id, nil)
	if err == nil {
		err = terminate(ctx, sandbox)
	}
	if isGone(err) {
		return nil
	}
	return failed(ctx, environment.KindTeardown, "end sandbox "+id, err)
}

// terminate ends a sandbox, and returns when it has ended. One that is gone is no error.
func terminate(ctx context.Context, sandbox *sdk.Sandbox) error {
	_, err := sandbox.Terminate(ctx, &sdk.SandboxTerminateParams{Wait: true})
	if isGone(err) {
		return nil
	}
	return err
}
