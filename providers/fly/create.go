package fly

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/awake"
	"github.com/org/rollout-action/providers/internal/hosted"
	"github.com/org/rollout-action/providers/internal/podinit"
)

const (
	// cleanupGrace is how long the removal of something half-made may take.
	cleanupGrace = 10 * time.Second
	// createAttempts is how often a machine is asked for where the service is short of resources.
	createAttempts = 4
	// startTime bounds the start of a machine, with the pull of its image.
	startTime = 15 * time.Minute
)

// CreateEnvironment implements environment.Provider.
func (p *Provider) CreateEnvironment(ctx context.Context, opts environment.CreateOptions) (environment.Environment, error) {
	if err := hosted.CheckNetwork(opts.Network); err != nil {
		return nil, err
	}
	if _, err := environment.CheckGPUs(p, opts.Limits); err != nil {
		return nil, err
	}
	image, err := p.images.Find(ctx, opts.Image)
	if err == nil {
		err = environment.CheckVolumes(image.Volumes)
	}
	if err != nil {
		return nil, err
	}
	guest, err := p.config.size(opts.Limits)
	if err != nil {
		return nil, err
	}
	name := p.appOf(opts.Labels)
	m, err := p.create(ctx, name, p.request(opts, image.Ref, guest))
	if err != nil {
		return nil, failed(ctx, environment.KindStart, "create a machine", err)
	}
	env := &machineEnv{p: p, app: name, machine: m.ID, pace: &pace{}}
	env.Environment = &hosted.Environment{
		Name: "machine " + env.ID(), Limits: opts.Limits, Since: time.Now(),
		Price: func(d time.Duration) float64 { return p.config.price.of(guest, d) },
	}
	if err := env.start(ctx, m, opts, hosted.GuestImage(image.Settings)); err != nil {
		return nil, p.discard(ctx, name, m.ID, err)
	}
	return env, nil
}

// metadataNetwork marks machines that have no network.
const (
	metadataNetwork = "rollout-network"
	networkNone     = "none"
)

func (p *Provider) request(opts environment.CreateOptions, image string, guest machineGuest) createMachineRequest {
	metadata := maps.Clone(hosted.TagsOf(opts.Labels))
	if !opts.Network.Public() {
		metadata[metadataNetwork] = networkNone
	}
	return createMachineRequest{
		Name: "rollout-" + strings.ToLower(rand.Text()), Region: p.config.region,
		Config: machineConfig{
			Image: image, AutoDestroy: true, Guest: &guest, Metadata: metadata,
			Init: machineInit{Exec: []string{"/bin/sh", "-c", hosted.AwaitGuest}}, Restart: machineRestart{Policy: "no"},
		},
	}
}

// create creates a machine, and its app. If ctx ends, none is left behind.
func (p *Provider) create(ctx context.Context, app string, r createMachineRequest) (machine, error) {
	longer, end := hosted.Longer(ctx)
	defer end()
	var m machine
	var err error
	for attempt := 1; attempt <= createAttempts; attempt++ {
		if m, err = p.attempt(longer, app, r); err == nil || ctx.Err() != nil || !again(err) {
			break
		}
		if !awake.Sleep(ctx, time.Duration(attempt)*time.Second) {
			break
		}
	}
	switch {
	case ctx.Err() == nil:
		return m, err
	case err == nil:
		return machine{}, p.discard(ctx, app, m.ID, ctx.Err())
	}
	cleanup, done := context.WithTimeout(context.WithoutCancel(ctx), cleanupGrace)
	defer done()
	if made, found := p.named(cleanup, app, r.Name); found {
		return machine{}, p.discard(ctx, app, made.ID, ctx.Err())
	}
	return machine{}, ctx.Err()
}

// again reports whether a machine may be made later.
func again(err error) bool {
	known := new(environment.Error)
	if errors.As(err, &known) {
		return known.Transient
	}
	status := statusOf(err)
	return unsure(err) || status == http.StatusConflict || status == http.StatusPreconditionFailed || status == http.StatusNotFound
}

// attempt tries to create a machine once. Its name tells whether an earlier attempt, whose answer
// was lost, has made it.
func (p *Provider) attempt(ctx context.Context, app string, r createMachineRequest) (machine, error) {
	if err := p.ensureApp(ctx, app); err != nil {
		return machine{}, err
	}
	if r.Config.Metadata[metadataNetwork] == networkNone {
		if err := p.guard(ctx, app); err != nil {
			return machine{}, err
		}
	}
	m, err := p.client.createMachine(ctx, app, r)
	if isGone(err) {
		p.forgetApp(app) // another shard has ended, and removed the app of the job
	}
	if err != nil && (unsure(err) || statusOf(err) == http.StatusConflict) {
		if made, found := p.named(ctx, app, r.Name); found {
			return made, nil
		}
	}
	return m, err
}

// named looks for a machine by its name.
func (p *Provider) named(ctx context.Context, app, name string) (machine, bool) {
	list, err := p.client.machines(ctx, app)
	if err != nil {
		return machine{}, false
	}
	for _, m := range list {
		if m.Name == name && present(m) {
			return m, true
		}
	}
	return machine{}, false
}

// guardName names the network policy of machines without a network. A policy lists what is allowed
// and denies the rest: it allows the port guardPort, where nothing answers.
const (
	guardName = "rollout-no-network"
	guardPort = 9 // discard
)

// guard creates the network policy of an app if it is missing. The policy selects machines by their
// metadata, so it holds from their start.
func (p *Provider) guard(ctx context.Context, app string) error {
	p.mu.Lock()
	guarded := p.guarded[app]
	p.mu.Unlock()
	if guarded {
		return nil
	}
	err := p.flights.Do(ctx, "policy of "+app, nil, func(ctx context.Context, _ func(string)) error {
		has, err := p.hasGuard(ctx, app)
		if err != nil || has {
			return err
		}
		err = p.client.createPolicy(ctx, app, networkPolicy{
			Name: guardName, Selector: policySelector{Metadata: map[string]string{metadataNetwork: networkNone}},
			Rules: []policyRule{{Action: "allow", Direction: "egress", Ports: []policyPort{{Protocol: "tcp", Port: guardPort}}}},
		})
		if err != nil {
			if has, _ := p.hasGuard(ctx, app); has { // another shard made it
				return nil
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.guarded[app] = true
	return nil
}

func (p *Provider) hasGuard(ctx context.Context, app string) (bool, error) {
	list, err := p.client.policies(ctx, app)
	return slices.ContainsFunc(list, func(p networkPolicy) bool { return p.Name == guardName }), err
}

// discard removes the remains of a failed creation and returns its error.
func (p *Provider) discard(ctx context.Context, app, id string, failure error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupGrace)
	defer cancel()
	if err := p.destroy(ctx, app, id); err != nil {
		return fmt.Errorf("%w; and then: %w", failure, err)
	}
	_ = p.awaitEnd(ctx, app, id) // it ends, now or later
	return failure
}

// start waits for the machine, brings the guest there, and begins the environment.
func (e *machineEnv) start(ctx context.Context, m machine, opts environment.CreateOptions, image podinit.Image) error {
	if err := e.awaitStart(ctx, m); err != nil {
		return failed(ctx, environment.KindStart, "start "+e.Name, err)
	}
	if err := e.install(ctx); err != nil {
		if why := e.explain(ctx); why != nil && ctx.Err() == nil {
			err = &environment.Error{Kind: environment.KindStart, Err: why}
		}
		return failed(ctx, environment.KindStart, "bring Rollout's program to "+e.Name, err)
	}
	own := podinit.Options{Image: image, Env: opts.Env, Files: opts.Files, Network: opts.Network, Explain: e.explain, Dial: e.p.options.Dial}
	if !opts.Network.Public() {
		own.Connected = proveOffline
	}
	var err error
	e.Environment.Environment, err = podinit.Start(ctx, e.dial, own)
	return err
}

// awaitStart waits until the machine runs.
func (e *machineEnv) awaitStart(ctx context.Context, m machine) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, permanent("it has not started for %s", startTime))
	defer cancel()
	for m.State != stateStarted {
		waited := e.p.client.wait(ctx, e.app, m)
		if waited == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		now, err := e.p.client.machine(ctx, e.app, e.machine)
		switch {
		case isGone(err):
			return errors.New("it ended before it started: check that Fly can pull the image, and that the image has sh")
		case err != nil:
			return err
		case now.State == "created" || now.State == "starting" || now.State == "replacing" || now.State == stateStarted:
			m = now
		default:
			return fmt.Errorf("it is %s: %w", hosted.OneLine(now.State), ending(now))
		}
		awake.Sleep(ctx, time.Second)
	}
	return nil
}

// proveOffline fails if an environment reaches the internet: policies may be late.
func proveOffline(ctx context.Context, e *podinit.Environment) error {
	for _, address := range []string{"1.1.1.1:443", "[2606:4700:4700::1111]:443"} {
		limited, cancel := context.WithTimeout(ctx, offlineTime)
		reached, err := e.Reaches(limited, address)
		cancel()
		if err != nil {
			return err
		}
		if reached {
			return &environment.Error{
				Kind: environment.KindStart, Transient: true, Err: errors.New("the network policy of the app has no effect on the machine: it reaches the internet"),
				Hint: "see the network policies of the app, or allow the task the network",
			}
		}
	}
	return nil
}

// offlineTime is how long an address is tried.
const offlineTime = 3 * time.Second
