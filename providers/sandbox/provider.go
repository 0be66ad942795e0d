//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/providers/sandbox/internal/cgroup"
	"github.com/org/rollout-action/providers/sandbox/internal/wire"
)

// Provider makes sandboxes. See New.
type Provider struct {
	config config
	opts   Options
	store  *store
	memory bool // changes are kept in memory …
	// … because the store's file system cannot hold them
	memoryOnly bool
	scaffold   string // the layer on every image
	aptLayer   string // the layer on images with apt, if that needs one
	groups     *cgroup.Tree
	frames     wire.Frames // if set, what devices of sandboxes have to be
	named      memo[*image]
}

var _ environment.Provider = (*Provider)(nil)

// New finds out what this machine allows. It fails with environment.KindUnavailable, and the way out, when no
// sandbox can be made here. cfg is environment.provider_config, see Check.
func New(ctx context.Context, cfg map[string]any, opts Options) (environment.Provider, error) {
	c, problems := readConfig(cfg)
	if len(problems) > 0 {
		var errs []error
		for _, problem := range problems {
			errs = append(errs, fmt.Errorf("environment.provider_config.%s: %s", problem.Path, problem.Message))
		}
		return nil, &environment.Error{Kind: environment.KindUnavailable, Err: errors.Join(errs...)}
	}
	opts.Hide = hidden(opts.Hide)
	p := &Provider{config: c, opts: opts, memory: c.scratch == "memory"}
	if err := p.open(ctx); err != nil {
		return nil, err
	}
	p.store.sweepDrafts()
	p.store.sweepGroups(p.groups)
	return p, nil
}

// Name implements environment.Provider.
func (p *Provider) Name() string { return Name }

// Close implements environment.Provider. Environments live on as long as this process.
func (p *Provider) Close() error { return nil }

// PullImage implements environment.Provider.
func (p *Provider) PullImage(ctx context.Context, ref string, progress func(string)) error {
	if progress == nil {
		progress = func(string) {}
	}
	progress("looking for " + ref)
	img, err := p.image(ctx, ref, progress)
	if err != nil {
		return err
	}
	if img.Base != nil {
		progress(fmt.Sprintf("%s stands in for %s: %s", img.Base.Actual, img.Base.Requested, img.Base.Reason))
	}
	return nil
}

// checkLimits refuses what this machine does not have.
func checkLimits(l environment.Limits) error {
	if cpus := int64(runtime.NumCPU()) * 1000; l.MilliCPUs > cpus {
		return &environment.Error{
			Kind: environment.KindResources,
			Err:  fmt.Errorf("%g cpus are wanted, and this machine has %d", float64(l.MilliCPUs)/1000, runtime.NumCPU()),
			Hint: "lower environment.override_cpus or the task's cpus, or run on a larger machine",
		}
	}
	return nil
}

// needed are folders that hold what every program needs. They and what they lie in are shown, whatever is to be hidden.
var needed = []string{
	"/bin", "/sbin", "/lib", "/lib64", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64", "/usr/libexec", "/usr/share", "/usr/local/bin",
	"/usr/local/sbin", "/usr/local/lib", "/opt", "/nix/store", "/gnu/store",
}

// hidden are those of the paths to hide that sandboxes could show at all: below the folders of this machine that are
// shown, none within another. Not many are, so that looking through them costs nothing later.
func hidden(hide []string) []string {
	var list []string
	for _, path := range slices.Sorted(slices.Values(hide)) { // what a path lies in comes before it
		first := strings.Split(path+"//", "/")[1]
		isShown := first == optional || slices.Contains(shown, first)
		covered := slices.ContainsFunc(list, func(other string) bool { return environment.Within(path, other) })
		isNeeded := slices.ContainsFunc(needed, func(dir string) bool { return environment.Within(dir, path) })
		if isShown && !covered && !isNeeded {
			list = append(list, path)
		}
	}
	return list
}

// whiteouts are the paths to hide within a part, relative to it.
func whiteouts(hide []string, part hostPart) []string {
	var list []string
	for _, path := range hide {
		if rel, err := filepath.Rel(part.Host, path); err == nil && rel != "." && filepath.IsLocal(rel) {
			list = append(list, rel)
		}
	}
	return list
}
