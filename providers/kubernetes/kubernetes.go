package kubernetes

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/flight"
	"github.com/org/rollout-action/providers/internal/initwire"
	"github.com/org/rollout-action/providers/internal/podinit"
	"github.com/org/rollout-action/providers/internal/registryimage"
)

// Name is the value of environment.type that selects this provider; Alias is accepted, too. Source:
// the specification calls it k8s.
const (
	Name  = "kubernetes"
	Alias = "k8s"
)

// Options are the settings of a Provider in addition to environment.provider_config.
type Options struct {
	// Clean: only List and Remove are called. Nothing is checked that they do not need.
	Clean bool
	// Builders build images of Dockerfiles, besides those of package registryimage.
	Builders []registryimage.Builder
	// HelperImage is the image with this program that is published with its version; "" if there is
	// none.
	HelperImage string
}

// Provider runs environments in a namespace of a cluster. See environment.Provider for the contract
// of its methods.
type Provider struct {
	config  config
	options Options
	client  *client
	about   string                  // the cluster, for messages
	run     string                  // labels what this Provider creates
	owner   []metav1.OwnerReference // the pod in which this process runs; nil: none
	watch   *tracker
	images  imageSource
	begin   func(context.Context, podinit.Dialer, podinit.Options) (inContainer, error) // podinit.Start
	// exec starts a command in a pod: client.exec.
	exec     func(ctx context.Context, namespace, name, container string, command ...string) (io.ReadWriteCloser, error)
	helper   once[string]
	policies *policies
	proof    *enforcement
	quota    *quotaLine

	reachTime, nodeTime, quietTime, youngTime time.Duration

	fits func(environment.Limits) error
}

var (
	_ environment.Provider        = (*Provider)(nil)
	_ environment.CreationChecker = (*Provider)(nil)
	_ environment.GPUProvider     = (*Provider)(nil)
	_ environment.ImageChecker    = (*Provider)(nil)
	_ environment.ServiceChecker  = (*Provider)(nil)
	_ environment.ServiceProvider = (*Provider)(nil)
	_ environment.Snapshotter     = (*Provider)(nil)
)

// New connects to the cluster that the configuration names, as kubectl does, and checks all that
// can be known before the first environment: permissions, the namespace, and whether the cluster
// admits such pods. cfg is environment.provider_config, as accepted by Check. A cluster that cannot
// be used is a KindUnavailable with a hint.
func New(ctx context.Context, cfg map[string]any, opts Options) (*Provider, error) {
	conf, err := parseConfig(cfg)
	if err != nil {
		return nil, &environment.Error{Kind: environment.KindUnavailable, Err: err}
	}
	at, err := conf.findCluster()
	if err != nil {
		return nil, err
	}
	return newProvider(ctx, conf, at, opts)
}

func newProvider(ctx context.Context, conf config, at connection, opts Options) (*Provider, error) {
	c, err := newClient(at.config, at.namespace)
	if err != nil {
		return nil, unavailable("check the kubeconfig", "use %s: %w", at.about, err)
	}
	p := &Provider{
		config: conf, options: opts, client: c, about: at.about, run: strings.ToLower(rand.Text()[:16]), reachTime: reachTime, nodeTime: nodeTime, quietTime: quietTime, youngTime: youngTime, begin: beginGuest,
		fits: func(environment.Limits) error { return nil },
	}
	p.exec = func(ctx context.Context, namespace, name, container string, command ...string) (io.ReadWriteCloser, error) {
		s, err := c.exec(ctx, namespace, name, container, command...)
		if err != nil {
			return nil, err // not a stream that is nil
		}
		return s, nil
	}
	p.quota = newQuotaLine(c)
	p.policies = &policies{client: c, restricted: p.podLabels(environment.Labels{}, roleTrial, environment.Network{Mode: environment.NetworkNone})}
	p.proof = &enforcement{p: p}
	p.watch = newTracker(c, labelRun+"="+p.run)
	if err := p.check(ctx); err != nil {
		return nil, err
	}
	if !opts.Clean {
		limited, cancel := context.WithTimeout(ctx, connectTimeout)
		p.owner = p.findOwner(limited, readSelf())
		cancel()
	}
	images, err := registryimage.New(registryimage.Config{
		Registry: conf.registry, PlainHTTP: conf.plainHTTP, Platform: "linux/" + p.config.architecture(),
		Builder: conf.builder, BuildKit: conf.buildkit, Builders: opts.Builders,
	})
	if err != nil {
		return nil, &environment.Error{Kind: environment.KindUnavailable, Err: fmt.Errorf("use the registry %s: %w", conf.registry, err)}
	}
	p.images = images
	return p, nil
}

// imageSource is the subset of *registryimage.Images that a Provider uses. Tests replace it.
type imageSource interface {
	Config(ctx context.Context, ref string) (registryimage.Image, error)
	Build(ctx context.Context, opts environment.BuildOptions) (string, error)
	CheckBuild(ctx context.Context, opts environment.BuildOptions) error
	Find(ctx context.Context, name, key string) (string, error)
	Push(ctx context.Context, opts registryimage.PushOptions) (string, error)
	Close() error
}

// inContainer is the subset of *podinit.Environment that an environment uses. Tests replace it.
type inContainer interface {
	environment.LoopbackListener
	environment.TerminalRunner
	environment.MemoryReporter
	environment.ProcessReporter
	environment.ReadinessReporter
	CopyTo(ctx context.Context, files ...environment.Copy) error
	CopyFrom(ctx context.Context, src, dst string, opts environment.ExtractOptions) (environment.Extracted, error)
	Exec(ctx context.Context, script string, opts environment.ExecOptions) (int, error)
	Run(ctx context.Context, of podinit.Run) (int, error)
	KillAll(ctx context.Context) error
	Stay(ctx context.Context) error
	Reaches(ctx context.Context, address string) (bool, error)
	Connections(ctx context.Context) ([]string, error)
	SetProxy(ctx context.Context, n environment.Network) error
	Files(ctx context.Context) iter.Seq2[initwire.File, error]
	PackFiles(ctx context.Context, paths iter.Seq[string], read func(io.Reader) error) error
	Close()
}

func beginGuest(ctx context.Context, dial podinit.Dialer, opts podinit.Options) (inContainer, error) {
	env, err := podinit.Start(ctx, dial, opts)
	if err != nil {
		return nil, err
	}
	return env, nil
}

// Name implements environment.Provider.
func (p *Provider) Name() string { return Name }

// Close implements environment.Provider. The pods that prove restrictions of the network are no
// environments, and end.
func (p *Provider) Close() error {
	err := p.proof.close()
	p.watch.close()
	return errors.Join(err, p.images.Close())
}

// once keeps the first success of an attempt. Callers at the same time share an attempt, and its
// error.
type once[T comparable] struct {
	attempts flight.Group

	mu    sync.Mutex
	known bool
	value T
}

// get returns the value, calling make unless it is known. tell, unless it is nil, receives the
// progress of make.
func (o *once[T]) get(ctx context.Context, tell func(string), make func(ctx context.Context, tell func(string)) (T, error)) (T, error) {
	for {
		if value, known := o.look(); known {
			return value, nil
		}
		err := o.attempts.Do(ctx, "", tell, func(ctx context.Context, tell func(string)) error {
			if _, known := o.look(); known {
				return nil // another attempt ended just before this one began
			}
			value, err := make(ctx, tell)
			if err == nil {
				o.mu.Lock()
				o.value, o.known = value, true
				o.mu.Unlock()
			}
			return err
		})
		if err != nil {
			var none T
			return none, err
		}
	}
}

func (o *once[T]) look() (value T, known bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.value, o.known
}

// forget makes a value unknown again.
func (o *once[T]) forget(value T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.value == value {
		o.known = false
	}
}
