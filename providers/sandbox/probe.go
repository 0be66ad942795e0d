//go:build linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/org/rollout-action/providers/internal/initclient"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/initwire"
	"github.com/org/rollout-action/providers/sandbox/internal/cgroup"
)

// open chooses the mode and the store by trying to create a sandbox. If no directory's file system
// can hold changes (as in most containers, whose root is an overlay), changes are kept in memory.
func (p *Provider) open(ctx context.Context) error {
	m := findMode(p.config.network)
	var failures []error
	var inMemory []string
	for _, dir := range storeDirs(p.config) {
		err := p.openAt(ctx, dir, m)
		if err == nil || ctx.Err() != nil {
			return err
		}
		failures = append(failures, fmt.Errorf("%s: %w", dir, err))
		if isOverlay(err) && !p.memory {
			inMemory = append(inMemory, dir)
		} else if isRefused(err) {
			break // other directories would be refused, too
		}
	}
	if len(inMemory) == 0 {
		return p.unavailable(m, failures)
	}
	p.memory, p.memoryOnly = true, true
	if err := p.openAt(ctx, inMemory[0], m); err != nil {
		return p.unavailable(m, append(failures, fmt.Errorf("in memory: %w", err)))
	}
	if p.opts.Progress != nil {
		p.opts.Progress("changes of sandboxes are kept in memory, and no images can be built: the file system of " + p.store.dir + " cannot hold overlays (" + diskHint(inPod()) + ")")
	}
	return nil
}

// diskHint returns the hint if the store's file system cannot hold the changes of sandboxes.
func diskHint(pod bool) string {
	if pod {
		return "give the pod " + podVolume
	}
	return "name a directory on an ordinary file system, such as ext4 or xfs, in environment.provider_config.dir; in a container, mount a volume there: -v rollout:/root/.cache/rollout"
}

// openAt opens the store in dir and creates an empty sandbox with it.
func (p *Provider) openAt(ctx context.Context, dir string, m mode) error {
	s, err := openStore(dir, m)
	if err != nil {
		return err
	}
	p.store = s
	if p.commonLayer, err = s.makeCommonLayer(ctx, p.config.network); err != nil {
		return err
	}
	if m == modeOne {
		if p.aptLayer, err = s.makeAptLayer(ctx); err != nil {
			return err
		}
	}
	if err := p.tryLaunch(ctx); err != nil {
		return err
	}
	p.groups, err = cgroup.Open("rollout")
	return startFailed(ctx, err)
}

// isRefused reports whether the kernel denied the creation of a sandbox.
func isRefused(err error) bool {
	started, setup, network := new(startError), new(initclient.SetupError), new(networkError)
	return errors.As(err, &started) || errors.As(err, &network) || errors.As(err, &setup) && setup.Refused
}

// isOverlay reports whether mounting the overlay failed.
func isOverlay(err error) bool {
	setup := new(initclient.SetupError)
	return errors.As(err, &setup) && setup.Refused && strings.Contains(setup.Problem, "mount an overlay")
}

func (p *Provider) tryLaunch(ctx context.Context) error {
	d, err := p.store.draft()
	if err != nil {
		return err
	}
	defer d.discard()
	setup, err := p.setup(&image{}, d.dir, p.mountOptions(environment.Limits{}))
	if err != nil {
		return err
	}
	b, err := launch(ctx, p.store.mode, setup, nil)
	if err != nil {
		return err
	}
	defer b.End()
	if p.config.network != networkOwn {
		return nil
	}
	var n networking
	defer n.close()
	if err := n.attach(ctx, b, p.usernet()); err != nil {
		return &networkError{err}
	}
	return nil
}

// networkError reports that a sandbox cannot have a network device.
type networkError struct{ err error }

func (e *networkError) Error() string { return "make a sandbox's network: " + e.err.Error() }
func (e *networkError) Unwrap() error { return e.err }

// unavailable returns the error, with a hint, for a machine on which no sandbox can be created.
func (p *Provider) unavailable(m mode, failures []error) error {
	hint := readHostFacts().remedy(m, errors.Join(failures...))
	return &environment.Error{
		Kind: environment.KindUnavailable,
		Err:  fmt.Errorf("this machine does not let rollout make sandboxes: %w", errors.Join(failures...)),
		Hint: hint + ", or use " + p.instead,
	}
}

// Options that a container needs so that sandboxes can run in it.
const (
	containerOptions = "--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined"
	containerVolume  = "a volume for the changes of sandboxes, -v rollout:/root/.cache/rollout"
	podOptions       = "securityContext: {runAsUser: 0, capabilities: {add: [SYS_ADMIN, NET_ADMIN]}, appArmorProfile: {type: Unconfined}, seccompProfile: {type: Unconfined}}"
	podVolume        = "an emptyDir volume at ~/.cache/rollout for the changes of sandboxes"
)

// otherProvider is the alternative that hints name.
const otherProvider = "another provider: environment.type: docker (--env-type docker)"

// hostFacts holds the facts about this machine that remedies depend on.
type hostFacts struct {
	container bool
	pod       bool // in a pod of Kubernetes
	// mounts: this process may mount, but make no networks.
	mountsOnly bool
	setting    func(name string) string // of the kernel, as sysctl names it; "" if there is none
	olderThan  func(major, minor int) bool
}

func readHostFacts() hostFacts {
	return hostFacts{
		container: inContainer(), pod: inPod(),
		mountsOnly: hasCapabilities(unix.CAP_SYS_ADMIN) && !hasCapabilities(unix.CAP_NET_ADMIN),
		olderThan:  kernelBefore,
		setting: func(name string) string {
			text, _ := os.ReadFile("/proc/sys/" + strings.ReplaceAll(name, ".", "/"))
			return strings.TrimSpace(string(text))
		},
	}
}

// remedy returns a hint that says how to avoid an error.
func (c hostFacts) remedy(m mode, err error) string {
	started := new(startError)
	namespaces := errors.As(err, &started)
	switch {
	case errors.Is(err, errForeign):
		return "choose your own directory in environment.provider_config.dir"
	case c.pod:
		return "this is a pod: give its container " + podOptions + ", and " + podVolume
	case errors.As(err, new(*networkError)):
		return "a sandbox has its own network, which needs TUN devices or pairs of virtual Ethernet devices: run sudo modprobe tun (or veth), " +
			"share this machine's network by environment.provider_config.network: host"
	case c.container && c.mountsOnly:
		return "this container may mount, but make no networks: add --cap-add NET_ADMIN, or share the container's network by " +
			"environment.provider_config.network: host, both with " + containerVolume + "; or start it without more capabilities, but with " + containerOptions + " and " + containerVolume
	case c.container:
		return "this is a container: start it with " + containerOptions + " and " + containerVolume
	case m.usesUserNamespace() && c.setting("kernel.apparmor_restrict_unprivileged_userns") == "1":
		return "AppArmor restricts user namespaces here: run sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or run rollout with sudo"
	case m.usesUserNamespace() && c.setting("kernel.unprivileged_userns_clone") == "0":
		return "user namespaces are switched off here: run sudo sysctl -w kernel.unprivileged_userns_clone=1, or run rollout with sudo"
	case c.setting("user.max_user_namespaces") == "0" && m.usesUserNamespace():
		return "user namespaces are switched off here: run sudo sysctl -w user.max_user_namespaces=15000, or run rollout with sudo"
	case m.usesUserNamespace() && c.olderThan(5, 11):
		return "Linux before 5.11 lets only root mount overlays: run rollout with sudo"
	case namespaces && errors.Is(err, syscall.ENOSPC):
		return "there are as many namespaces as this machine allows: see /proc/sys/user/max_*_namespaces"
	case m.usesUserNamespace():
		return "run rollout with sudo"
	case isOverlay(err):
		return diskHint(false)
	}
	return "rollout needs namespaces and overlays, which the kernel or a security module refuses here: change that"
}

// inPod reports whether this process runs in a pod of Kubernetes, which sets the variable in every
// container.
func inPod() bool { return os.Getenv("KUBERNETES_SERVICE_HOST") != "" }

// inContainer reports whether this process runs in a container of a common engine.
func inContainer() bool {
	if os.Getenv("container") != "" || exists("/run/.containerenv") {
		return true
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	return err == nil && exists("/.dockerenv") && strings.HasPrefix(string(mounts), "overlay / ")
}

// kernelBefore reports whether the running kernel is older than a version.
func kernelBefore(major, minor int) bool {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return false
	}
	var a, b int
	if n, _ := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &a, &b); n < 2 {
		return false
	}
	return a < major || a == major && b < minor
}

// mountOptions says where a sandbox's changes are kept. The zero value is for building images.
type mountOptions struct {
	memory  bool
	storage int64 // limit, with memory; 0: half of the machine's memory
}

func (p *Provider) mountOptions(limits environment.Limits) mountOptions {
	return mountOptions{memory: p.memory, storage: limits.Storage}
}

// setup returns the first message to a sandbox's process 1, and creates the directories named in
// it. Changes are stored below dir, a directory in the store.
func (p *Provider) setup(img *image, dir string, in mountOptions) (initwire.Setup, error) {
	setup := initwire.Setup{
		Store:    p.store.dir,
		Root:     dir + "/root",
		Mounts:   p.mounts(img, strings.TrimPrefix(dir, p.store.dir+"/")),
		Hostname: hostname,
		User:     p.store.mode.usesUserNamespace(),
		OneID:    p.store.mode == modeOne,
		Loopback: !p.shares(),
	}
	if err := os.Mkdir(setup.Root, 0o755); err != nil {
		return setup, err
	}
	if in.memory {
		// Relative to the store, because commands can read the paths of mounts.
		setup.Memory, setup.Scratch = &in.storage, strings.TrimPrefix(dir+"/memory", p.store.dir+"/")
		if err := os.Mkdir(p.store.path(setup.Scratch), 0o755); err != nil {
			return setup, err
		}
		return setup, p.hide(img, dir, setup.Mounts)
	}
	for _, m := range setup.Mounts {
		for _, path := range []string{m.Upper, m.Work} {
			if err := makeDir(p.store.path(path), 0o755); err != nil { // the sandbox's / has this mode
				return setup, err
			}
		}
	}
	return setup, p.hide(img, dir, setup.Mounts)
}

// hide adds whiteouts for Options.Hide to the mounts of this machine's parts. They are in separate
// layers below the sandbox's changes, so that a built layer does not contain them.
func (p *Provider) hide(img *image, dir string, mounts []initwire.Mount) error {
	if img.Host == nil {
		return nil
	}
	for i := range mounts {
		part, ok := img.Host.part(mounts[i].At)
		paths := whiteouts(p.opts.Hide, part)
		if !ok || len(paths) == 0 {
			continue
		}
		layer := dir + "/hide/" + part.part()
		if err := makeDir(layer, 0o755); err != nil {
			return err
		}
		for _, path := range paths {
			if err := p.whiteout(part, layer, path); err != nil {
				return err
			}
		}
		mounts[i].Lower = append([]string{strings.TrimPrefix(layer, p.store.dir+"/")}, mounts[i].Lower...)
	}
	return nil
}

// whiteout adds a whiteout for a path to a layer of a part.
func (p *Provider) whiteout(part hostPart, layer, path string) error {
	b := baseMaker{mode: p.store.mode}
	if err := b.mirror(filepath.Dir(part.Host+"/"+path), filepath.Dir(layer+"/"+path)); err != nil {
		return ignoreUnreadable(err) // does not exist
	}
	err := unix.Mknod(layer+"/"+path, unix.S_IFCHR, 0)
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOTDIR) {
		return nil // it is hidden already, or a directory above it is
	}
	if err != nil {
		return fmt.Errorf("hide %s/%s: %w", part.Host, path, err)
	}
	return nil
}
