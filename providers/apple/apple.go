package apple

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/lib/awake"
	"github.com/org/rollout-action/providers/internal/flight"
	"github.com/org/rollout-action/providers/internal/hosted"
	"github.com/org/rollout-action/providers/internal/registryimage"
)

// Name selects this provider in environment.type.
const Name = "apple"

// Options are the settings of a Provider in addition to environment.provider_config. Users have the
// zero value.
type Options struct {
	// OS is the operating system of this machine, as Go names it; "": that of this program.
	OS string
	// Architecture is that of the containers' kernel, as Go names it; "": arm64.
	Architecture string
	// CPUs is how many this machine has; 0: as the system says.
	CPUs int
	// Command is the path of the program container; "": the one in PATH.
	Command string
	// Dir is a directory of this user's for the names of kept containers; "": rollout/apple among
	// the user's settings.
	Dir string
	// Program returns the program of package podinit that containers run; nil: the program for this
	// release.
	Program func() ([]byte, error)
	// Dial, if not nil, replaces this machine's network for the proxy of an allowlist.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Provider runs environments in containers. See environment.Provider for the contract of its
// methods.
type Provider struct {
	config  config
	options Options
	command command
	kept    kept
	program *hosted.Program
	flights flight.Group

	mu       sync.Mutex
	settings map[string]registryimage.Settings // of images, by digest
}

var (
	_ environment.Provider        = (*Provider)(nil)
	_ environment.ImageChecker    = (*Provider)(nil)
	_ environment.ImageIdentifier = (*Provider)(nil)
)

// New finds the command container and asks whether its system service runs. cfg is
// environment.provider_config, as accepted by Check. A machine that cannot run containers is a
// KindUnavailable with a hint.
func New(ctx context.Context, cfg map[string]any, opts Options) (*Provider, error) {
	c, problems := readConfig(cfg)
	if len(problems) > 0 {
		return nil, &environment.Error{Kind: environment.KindUnavailable, Err: fmt.Errorf("environment.provider_config.%s: %s", problems[0].Path, problems[0].Message)}
	}
	opts.OS, opts.Architecture, opts.CPUs = cmp.Or(opts.OS, runtime.GOOS), cmp.Or(opts.Architecture, "arm64"), cmp.Or(opts.CPUs, runtime.NumCPU())
	c.platform = cmp.Or(c.platform, "linux/"+opts.Architecture)
	if opts.OS != "darwin" {
		return nil, &environment.Error{
			Kind: environment.KindUnavailable, Unconfigured: true, Err: fmt.Errorf("the provider apple runs containers of macOS, and this is %s", opts.OS),
			Hint: "use the provider docker, or sandbox on Linux",
		}
	}
	path, err := exec.LookPath(cmp.Or(opts.Command, "container"))
	if err != nil {
		return nil, &environment.Error{
			Kind: environment.KindUnavailable, Unconfigured: true, Err: fmt.Errorf("there is no command container: %w", err),
			Hint: "install it from https://github.com/apple/container/releases, or use the provider docker",
		}
	}
	if opts.Dir == "" {
		settings, err := os.UserConfigDir()
		if err != nil {
			return nil, &environment.Error{Kind: environment.KindUnavailable, Err: err}
		}
		opts.Dir = filepath.Join(settings, "rollout", "apple")
	}
	p := &Provider{
		config: c, options: opts, command: command{path}, kept: kept{filepath.Join(opts.Dir, "kept")},
		program: hosted.NewProgram(opts.Architecture, opts.Program), settings: map[string]registryimage.Settings{},
	}
	if err := p.connect(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// oldest is the oldest major version whose output is as this package reads it.
const oldest = 1

var version = regexp.MustCompile(`\bversion ([0-9]{1,6})\.`)

// connect checks the version of the command, and that its service answers.
func (p *Provider) connect(ctx context.Context) error {
	out, err := p.command.run(ctx, 1, nil, "--version")
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &environment.Error{Kind: environment.KindUnavailable, Err: err}
	}
	said := version.FindSubmatch(out)
	if said == nil {
		return &environment.Error{
			Kind: environment.KindUnavailable, Unconfigured: true, Err: fmt.Errorf("%s is not Apple's command: it says %q", p.command.path, hosted.OneLine(string(out))),
		}
	}
	if major, _ := strconv.Atoi(string(said[1])); major < oldest {
		return &environment.Error{
			Kind: environment.KindUnavailable, Err: fmt.Errorf("%s is too old: Rollout needs version %d.0 or later", hosted.OneLine(string(out)), oldest),
			Hint: "update it with /usr/local/bin/update-container.sh",
		}
	}
	if !p.command.serving(ctx) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &environment.Error{Kind: environment.KindUnavailable, Err: errors.New("the system service of container does not run"), Hint: startHint}
	}
	return nil
}

// Name implements environment.Provider.
func (p *Provider) Name() string { return Name }

// Close implements environment.Provider.
func (p *Provider) Close() error { return nil }

// List implements environment.Provider.
func (p *Provider) List(ctx context.Context) ([]environment.Listed, error) {
	all, err := p.command.list(ctx)
	if err != nil {
		return nil, p.failed(ctx, environment.KindUnavailable, "list containers", err)
	}
	var listed []environment.Listed
	for _, c := range all {
		listed = append(listed, environment.Listed{ID: c.ID, Labels: hosted.LabelsOf(c.Configuration.Labels), Kept: p.kept.has(c.ID)})
	}
	return listed, nil
}

// Remove implements environment.Provider.
func (p *Provider) Remove(ctx context.Context, id string) error {
	return p.failed(ctx, environment.KindTeardown, "delete container "+id, p.delete(ctx, id))
}

// lagTime is how long the list may name a container that is gone.
const lagTime = 10 * time.Second

// delete deletes a container and returns when it is gone. One that is gone is no error: the list
// tells, because the command has no code for it.
func (p *Provider) delete(ctx context.Context, id string) error {
	_, failure := p.command.run(ctx, 1, nil, "delete", "--force", id)
	for waited, pause := time.Duration(0), 100*time.Millisecond; failure != nil; waited, pause = waited+pause, 2*pause {
		_, found, err := p.command.find(ctx, id)
		switch {
		case err != nil:
			return errors.Join(failure, err)
		case !found:
			failure = nil
			continue
		case waited > lagTime || !awake.Sleep(ctx, pause):
			return failure
		}
		_, failure = p.command.run(ctx, 1, nil, "delete", "--force", id)
	}
	p.kept.forget(id)
	return nil
}
