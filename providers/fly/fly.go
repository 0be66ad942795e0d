package fly

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/awake"
	"github.com/org/rollout-action/providers/internal/flight"
	"github.com/org/rollout-action/providers/internal/hosted"
	"github.com/org/rollout-action/providers/internal/registryimage"
)

// Name selects this provider in environment.type.
const Name = "fly"

// Options are the settings of a Provider in addition to environment.provider_config.
type Options struct {
	// Clean: only List and Remove are called. The variables FLY_APP and FLY_ORG take the place of
	// app and org, because rollout clean knows no configuration.
	Clean bool
	// Builders build images for a registry.
	Builders []registryimage.Builder
	// Program returns the program of package podinit that machines run; nil: the program for this
	// release.
	Program func() ([]byte, error)
	// Images describes images in registries; nil: the registries.
	Images hosted.ImageSource
	// Dial, if not nil, replaces this machine's network for the proxy of an allowlist.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Unpaced: commands are not held back so that they stay below the limit of rate.
	Unpaced bool
}

// Provider runs environments in machines of an app. See environment.Provider for the contract of
// its methods.
type Provider struct {
	config  config
	options Options
	client  *client
	images  hosted.Images
	program *hosted.Program
	flights flight.Group

	mu      sync.Mutex
	ready   map[string]bool // apps that exist
	created map[string]bool // apps of jobs that have had machines of this provider
	guarded map[string]bool // apps that have the policy of machines without a network
}

var (
	_ environment.Provider        = (*Provider)(nil)
	_ environment.ImageChecker    = (*Provider)(nil)
	_ environment.ImageIdentifier = (*Provider)(nil)
)

// architecture is that of Fly's machines, as Go names it.
const architecture = "amd64"

// New connects to Fly with the token of the user. cfg is environment.provider_config, as accepted
// by Check. A service that cannot be used is a KindUnavailable with a hint.
func New(ctx context.Context, cfg map[string]any, opts Options) (*Provider, error) {
	c, problems := readConfig(cfg)
	if len(problems) > 0 {
		return nil, unusable("environment.provider_config.%s: %s", problems[0].Path, problems[0].Message)
	}
	if opts.Clean {
		c.app, c.org = cmp.Or(c.app, os.Getenv("FLY_APP")), cmp.Or(c.org, os.Getenv("FLY_ORG"))
	}
	token := os.Getenv("FLY_API_TOKEN")
	if token == "" {
		return nil, &environment.Error{
			Kind: environment.KindUnavailable, Unconfigured: true, Err: errors.New("there is no token of Fly.io"),
			Hint: "make one with `fly tokens create org`, and set FLY_API_TOKEN",
		}
	}
	base := strings.TrimSuffix(cmp.Or(os.Getenv("FLY_API_HOSTNAME"), "https://api.machines.dev"), "/")
	if at, err := url.Parse(base); err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" {
		return nil, unusable("FLY_API_HOSTNAME is not the address of an API: want https://HOST")
	}
	p := &Provider{
		config: c, options: opts, client: &client{base: base, token: token, http: &http.Client{}},
		program: hosted.NewProgram(architecture, opts.Program),
		ready:   map[string]bool{}, created: map[string]bool{}, guarded: map[string]bool{},
	}
	if err := p.connect(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

func unusable(format string, args ...any) error {
	return &environment.Error{Kind: environment.KindUnavailable, Err: fmt.Errorf(format, args...)}
}

// connect checks the token, and that a named app exists.
func (p *Provider) connect(ctx context.Context) error {
	var err error
	if p.config.app != "" {
		err = p.client.seesApp(ctx, p.config.app)
	} else {
		_, err = p.client.apps(ctx, p.org())
	}
	if failure := failed(ctx, environment.KindUnavailable, "connect to Fly", err); failure != nil {
		if own := new(environment.Error); errors.As(failure, &own) && isGone(err) {
			own.Refused, own.Hint = true, "the token does not see the app or the organization: see app and org in environment.provider_config"
		}
		return failure
	}
	p.images, err = hosted.OpenImages(p.options.Images, architecture, registryimage.Config{
		Registry: p.config.registry, Builder: p.config.builder, Builders: p.options.Builders,
	})
	return err
}

func (p *Provider) org() string { return cmp.Or(p.config.org, defaultOrg) }

// Name implements environment.Provider.
func (p *Provider) Name() string { return Name }

// Close implements environment.Provider. Apps of jobs that have no more machines are removed.
func (p *Provider) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupGrace)
	defer cancel()
	p.mu.Lock()
	apps := p.created
	p.created = map[string]bool{}
	p.mu.Unlock()
	for name := range apps {
		p.removeEmpty(ctx, name)
	}
	p.client.http.CloseIdleConnections()
	return p.images.Close()
}

// appPrefix begins the names of the apps of jobs.
const appPrefix = "rollout-"

// appOf returns the app of a job's machines.
func (p *Provider) appOf(l environment.Labels) string {
	if p.config.app != "" {
		return p.config.app
	}
	sum := sha256.Sum256([]byte(p.org() + "\x00" + l.Job + "\x00" + l.Run))
	return appPrefix + hex.EncodeToString(sum[:8])
}

// isJobApp reports whether an app is one that Rollout creates and removes.
func isJobApp(name string) bool {
	digits, ok := strings.CutPrefix(name, appPrefix)
	_, err := hex.DecodeString(digits)
	return ok && err == nil && len(digits) == 16
}

// ensureApp creates the app of a job unless it exists.
func (p *Provider) ensureApp(ctx context.Context, name string) error {
	p.mu.Lock()
	ready := p.ready[name]
	p.mu.Unlock()
	if ready || p.config.app != "" {
		return nil
	}
	err := p.client.createApp(ctx, name, p.org())
	if err != nil {
		// The name is taken: by another shard of the job, or by an earlier attempt.
		if p.client.seesApp(ctx, name) != nil {
			return failed(ctx, environment.KindStart, "create the app "+name, err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready[name], p.created[name] = true, true
	return nil
}

// forgetApp notes that an app does not exist any more.
func (p *Provider) forgetApp(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.ready, name)
	delete(p.guarded, name)
}

// removeEmpty removes the app of a job that has no more machines. If that fails, it stays, and
// costs nothing.
func (p *Provider) removeEmpty(ctx context.Context, name string) {
	if !isJobApp(name) || name == p.config.app {
		return
	}
	list, err := p.client.machines(ctx, name)
	if err != nil || slices.ContainsFunc(list, present) {
		return
	}
	_ = p.client.deleteApp(ctx, name) // fails if there are machines: it is not forced
}

// present reports whether a machine is not destroyed.
func present(m machine) bool { return m.State != stateDestroyed && m.State != stateDestroying }

// List implements environment.Provider. If the configuration names no app, it lists the machines of
// the apps of all jobs.
func (p *Provider) List(ctx context.Context) ([]environment.Listed, error) {
	const doing = "list machines of Fly"
	names := []string{p.config.app}
	if p.config.app == "" {
		apps, err := p.client.apps(ctx, p.org())
		if err != nil {
			return nil, failed(ctx, environment.KindUnavailable, doing, err)
		}
		names = nil
		for _, a := range apps {
			if isJobApp(a.Name) {
				names = append(names, a.Name)
			}
		}
	}
	var listed []environment.Listed
	for _, name := range names {
		list, err := p.client.machines(ctx, name)
		if isGone(err) && p.config.app == "" {
			continue // it was removed meanwhile: lists lag
		}
		if err != nil {
			return nil, failed(ctx, environment.KindUnavailable, doing, err)
		}
		for _, m := range list {
			if !present(m) {
				continue
			}
			now, err := p.client.machine(ctx, name, m.ID)
			if isGone(err) || err == nil && !present(now) {
				continue
			}
			if err != nil {
				return nil, failed(ctx, environment.KindUnavailable, doing, err)
			}
			tags := now.Config.Metadata
			listed = append(listed, environment.Listed{ID: name + "/" + m.ID, Labels: hosted.LabelsOf(tags), Kept: tags[hosted.TagKept] != ""})
		}
	}
	return listed, nil
}

// Remove implements environment.Provider. The app of a job goes with its last machine.
func (p *Provider) Remove(ctx context.Context, id string) error {
	app, machine, ok := strings.Cut(id, "/")
	if !ok {
		return nil
	}
	err := p.destroy(ctx, app, machine)
	if err == nil {
		err = p.awaitEnd(ctx, app, machine)
	}
	if err != nil {
		return failed(ctx, environment.KindTeardown, "destroy machine "+id, err)
	}
	if p.config.app == "" {
		p.removeEmpty(ctx, app)
	}
	return nil
}

// awaitEnd waits until a machine that is being destroyed does not run any more.
func (p *Provider) awaitEnd(ctx context.Context, app, id string) error {
	for pause := 200 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		m, err := p.client.machine(ctx, app, id)
		if isGone(err) || err == nil && m.State == stateDestroyed {
			return nil
		}
		if err != nil {
			return err
		}
		if !awake.Sleep(ctx, pause) {
			return ctx.Err()
		}
	}
}

// destroy has a machine destroyed. One that is gone is no error.
func (p *Provider) destroy(ctx context.Context, app, id string) error {
	err := p.client.deleteMachine(ctx, app, id)
	if isGone(err) {
		return nil
	}
	return err
}
