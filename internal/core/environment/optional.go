package environment

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// As returns the optional interface T of a Provider or an Environment, or of the one that it wraps:
// wrappers have a method Unwrap. ok is false if none has T. Callers that want a value with a
// default use the functions below.
func As[T any](v any) (t T, ok bool) {
	for {
		if t, ok := v.(T); ok {
			return t, true
		}
		switch w := v.(type) {
		case interface{ Unwrap() Provider }:
			v = w.Unwrap()
		case interface{ Unwrap() Environment }:
			v = w.Unwrap()
		default:
			return t, false
		}
	}
}

// unsupported returns the error of a provider without an optional interface. errors.ErrUnsupported
// is in its chain.
func unsupported(what string) error {
	return fmt.Errorf("this provider cannot %s: %w", what, errors.ErrUnsupported)
}

// Backend is a Provider that can lose its connection, such as to an engine.
type Backend interface {
	// Reachable waits a while for a backend that does not answer, and returns the error if it still
	// does not. The error's kind is KindUnavailable, with a hint. If all is well, it makes no
	// request.
	Reachable(ctx context.Context) error
}

// Reachable returns the error of p's backend if it does not answer, or nil; it returns nil if p is
// no Backend.
func Reachable(ctx context.Context, p Provider) error {
	if b, ok := As[Backend](p); ok {
		return b.Reachable(ctx)
	}
	return nil
}

// CreationChecker is a Provider that can tell before a trial begins that its environment can never
// be created. Without it, CreateEnvironment tells.
type CreationChecker interface {
	// CheckCreation returns the error with which CreateEnvironment would fail for these limits and
	// this network whatever else there is at that time, such as that they exceed a quota, or nil if
	// it may succeed. It creates nothing.
	CheckCreation(ctx context.Context, l Limits, n Network) error
	// ProveNetworks returns the error of a backend that does not enforce networks other than public
	// ones. It may create something for a while to find out; progress, if not nil, receives lines
	// for users. A success is remembered.
	ProveNetworks(ctx context.Context, progress func(string)) error
}

// GPUProvider is a Provider whose environments can have GPUs. Those of others cannot.
type GPUProvider interface {
	// ChoosesGPUs reports whether an environment gets GPUs of Limits.GPUTypes only. Otherwise it
	// gets those that there are.
	ChoosesGPUs() bool
}

// CheckGPUs returns the error if l wants GPUs and p is no GPUProvider. Its kind is KindResources.
// unchosen reports whether p does not heed the types that l names.
func CheckGPUs(p Provider, l Limits) (unchosen bool, err error) {
	if l.GPUs == 0 {
		return false, nil
	}
	g, ok := As[GPUProvider](p)
	if !ok {
		return false, &Error{
			Kind: KindResources, Err: fmt.Errorf("the task needs %d GPUs, and environments of the provider %s have none", l.GPUs, p.Name()),
			Hint: "use docker, kubernetes or modal, or leave the task out: exclude_tasks in the job",
		}
	}
	return l.GPUTypes != "" && !g.ChoosesGPUs(), nil
}

// CheckCreation returns the error if p can never create such environments, or nil; if p is no
// CreationChecker, only that of CheckGPUs.
func CheckCreation(ctx context.Context, p Provider, l Limits, n Network) error {
	if _, err := CheckGPUs(p, l); err != nil {
		return err
	}
	if c, ok := As[CreationChecker](p); ok {
		return c.CheckCreation(ctx, l, n)
	}
	return nil
}

// ProveNetworks returns the error if p cannot restrict networks, or nil; it returns nil if p is no
// CreationChecker.
func ProveNetworks(ctx context.Context, p Provider, progress func(string)) error {
	if c, ok := As[CreationChecker](p); ok {
		return c.ProveNetworks(ctx, progress)
	}
	return nil
}

// ImageChecker is a Provider that can tell before a trial begins that its image can never be built
// or pulled. Without it, BuildImage and PullImage tell. Facts that cannot be known yet, such as
// whether a registry will answer, are no errors. Errors with equal hints have the same reason,
// which may concern many images.
type ImageChecker interface {
	// CheckPull returns the error with which environments of an image fail.
	CheckPull(ctx context.Context, ref string) error
	// CheckBuild returns the error with which BuildImage fails, other than errors of the build
	// itself.
	CheckBuild(ctx context.Context, opts BuildOptions) error
}

// ImageIdentifier is a Provider that can compare the content of images. Without it, results are not
// reused (run --reuse), and agents are installed in every trial.
type ImageIdentifier interface {
	// ImageID returns an identifier for the content of an image that was built, pulled or made by
	// Snapshot: environments of images with equal ids begin with the same files and settings. A
	// rebuilt image has another id. It is opaque. ErrNoImage is in the chain if the provider does
	// not have ref.
	ImageID(ctx context.Context, ref string) (string, error)
}

// ImageID returns p's ImageID of ref, with the retries of p's Retry. errors.ErrUnsupported is in
// the chain if p is no ImageIdentifier.
func ImageID(ctx context.Context, p Provider, ref string) (id string, err error) {
	images, ok := As[ImageIdentifier](p)
	if !ok {
		return "", unsupported("tell whether two images are the same")
	}
	err = policyOf(p).do(ctx, "look", func() error {
		id, err = images.ImageID(ctx, ref)
		return err
	})
	return id, err
}

// Snapshotter is a Provider that can keep environments as images: all its environments are
// Snapshottable. It is an ImageIdentifier, too. Without it, agents are installed in every trial
// (agents[].cache_install).
type Snapshotter interface {
	ImageIdentifier

	// FindSnapshot returns the reference and the Description of the image that Snapshot keeps under
	// key, whoever made it, or "" if there is none.
	FindSnapshot(ctx context.Context, key string) (ref, description string, err error)

	// LockSnapshot waits for the lock of key, which excludes others in this process and, as far as
	// the provider can, in other processes of this user. The holder calls FindSnapshot, and makes
	// the snapshot if it is missing. A process that ends releases its lock.
	LockSnapshot(ctx context.Context, key string) (unlock func(), err error)
}

// FindSnapshot returns p's FindSnapshot of key, with the retries of p's Retry.
// errors.ErrUnsupported is in the chain if p is no Snapshotter.
func FindSnapshot(ctx context.Context, p Provider, key string) (ref, description string, err error) {
	snapshots, ok := As[Snapshotter](p)
	if !ok {
		return "", "", unsupportedSnapshot()
	}
	err = policyOf(p).do(ctx, "look", func() error {
		ref, description, err = snapshots.FindSnapshot(ctx, key)
		return err
	})
	return ref, description, err
}

// LockSnapshot returns p's LockSnapshot of key. errors.ErrUnsupported is in the chain if p is no
// Snapshotter.
func LockSnapshot(ctx context.Context, p Provider, key string) (unlock func(), err error) {
	if snapshots, ok := As[Snapshotter](p); ok {
		return snapshots.LockSnapshot(ctx, key)
	}
	return nil, unsupportedSnapshot()
}

func unsupportedSnapshot() error { return unsupported("keep an environment as an image") }

// Snapshottable is an Environment that can become an image.
type Snapshottable interface {
	// Snapshot ends all processes and keeps the files of the environment as an image, under
	// opts.Key, with the settings of the environment's image (user, working directory, variables,
	// ENTRYPOINT, HEALTHCHECK). It returns the reference for CreateEnvironment. It replaces an
	// image with the same key; environments of the old one live on. Mounts are not kept. After
	// Snapshot, only Destroy may be called, even if Snapshot failed. If it fails, nothing is kept.
	//
	// Fails with KindSnapshot if this environment cannot be kept: because it has variables
	// (CreateOptions.Env), which images must not have; because some of its files are stored
	// elsewhere, such as volumes and memory; or because opts.Inspect returned an error, which is in
	// the chain.
	Snapshot(ctx context.Context, opts SnapshotOptions) (ref string, err error)
}

// Snapshot keeps env as an image and returns its reference. errors.ErrUnsupported is in the chain
// if env is not Snapshottable.
func Snapshot(ctx context.Context, env Environment, opts SnapshotOptions) (ref string, err error) {
	if s, ok := As[Snapshottable](env); ok {
		return s.Snapshot(ctx, opts)
	}
	return "", unsupportedSnapshot()
}

// SnapshotOptions configure Snapshot.
type SnapshotOptions struct {
	// Key identifies the image: 16 hexadecimal digits or more, all significant.
	Key string
	// Description is one line for users that describes the image.
	Description string
	// Inspect, if not nil, is called with each file, directory and link that the image has and the
	// environment's image does not, or that differs. Name is the absolute path; Linkname, Size and,
	// as far as they are kept, extended attributes (PAXRecords) are as in archive/tar. content need
	// not be read to its end. It sees all that is kept: no file changes after its first call. An
	// error ends the Snapshot.
	Inspect func(file *tar.Header, content io.Reader) error
}

// ImageStore is a Provider that keeps images. Without it, rollout clean --images has nothing to
// remove.
type ImageStore interface {
	// Images lists the images that the provider keeps, whoever made them: images that were built,
	// snapshots, and their bases if they are stored separately. Pulled images are listed only if no
	// other program uses them.
	Images(ctx context.Context) ([]Image, error)

	// RemoveImage removes one of Images. One that is already gone is no error. Removing one that an
	// environment uses is an error.
	RemoveImage(ctx context.Context, id string) error
}

// Image is an image, or a part of one, that a provider keeps.
type Image struct {
	ID   string // for RemoveImage
	Name string // for users: a reference or a description; contains a snapshot's Description
	// Size is the most bytes that it may take, without those shared with other images if the
	// provider can tell; -1 if it is unknown.
	Size int64
	// Used is when it was made or last used, as far as the provider knows: some only know the
	// creation, or what this user did on this machine.
	Used  time.Time
	InUse bool     // used by an environment, running or kept
	Needs []string // IDs of the images in the list that it is based on
}

// Describer is a Provider that can tell what it is connected to.
type Describer interface {
	// Describe returns the version and the address of an engine or a cluster, for users.
	Describe() string
}

// Describe returns p's Describe, or "" if p has none.
func Describe(p Provider) string {
	if d, ok := As[Describer](p); ok {
		return d.Describe()
	}
	return ""
}

// LocalDisk is a Provider that keeps images and changes of environments on this machine. Without
// it, environment.min_free_disk only applies to the disk of the results.
type LocalDisk interface {
	// Disk returns a directory on the file system that has the images and the changes of
	// environments, or "" if it is not on this machine or unknown.
	Disk() string
}

// Disk returns p's Disk, or "" if p has no LocalDisk.
func Disk(p Provider) string {
	if d, ok := As[LocalDisk](p); ok {
		return d.Disk()
	}
	return ""
}

// NetworkSetter is an Environment whose network can change. Without it, all phases of a trial must
// have the same network.
type NetworkSetter interface {
	// SetNetwork changes the addresses that the environment can reach. When it returns, no process
	// of the environment, old or new, can use addresses that n does not allow, and no such
	// connection is open; connections that n allows may end, too. Processes live on, with their
	// connections over loopback devices in the environment. A command that is under way must not
	// use the network meanwhile. After a failure that is not transient the environment must not be
	// used further.
	SetNetwork(ctx context.Context, n Network) error
}

// SetNetwork changes the network of env, with the retries of its provider's Retry.
// errors.ErrUnsupported is in the chain if env is no NetworkSetter.
func SetNetwork(ctx context.Context, env Environment, n Network) error {
	setter, ok := As[NetworkSetter](env)
	if !ok {
		return unsupported("change the network of an environment that exists")
	}
	return policyOf(env).do(ctx, "network", func() error { return setter.SetNetwork(ctx, n) })
}

// LoopbackListener is an Environment in which this process can listen. Without it, agents cannot
// have a model of the job (agents[].model).
type LoopbackListener interface {
	// ListenLoopback listens on a free port of the environment's loopback device. Connections of
	// the environment's processes to it come out of the listener, whatever the environment's
	// network is and becomes; Addr returns the address in the environment. The machine opens no
	// port for it, unless the environment shares the machine's network. An environment can have
	// several listeners. Each ends, with all of its connections, when it is closed, and with Stop
	// and Destroy; if processes of the environment can end it, its Accept fails, and another can be
	// made.
	ListenLoopback(ctx context.Context) (net.Listener, error)
}

// ListenLoopback listens on env's loopback device, with the retries of its provider's Retry.
// errors.ErrUnsupported is in the chain if env is no LoopbackListener.
func ListenLoopback(ctx context.Context, env Environment) (l net.Listener, err error) {
	listener, ok := As[LoopbackListener](env)
	if !ok {
		return nil, unsupported("listen in an environment")
	}
	err = policyOf(env).do(ctx, "listen", func() error {
		l, err = listener.ListenLoopback(ctx)
		return err
	})
	return l, err
}

// Restorer is a Provider that can continue with the files of environments that Stop or KeepOutcome
// has kept. Without it, rollout shell cannot enter them, and rollout verify cannot verify their
// content.
type Restorer interface {
	// Restore creates and starts an environment as CreateEnvironment does, but with the files of
	// the environment id, which Stop or KeepOutcome has kept. opts.Image is the image of that one,
	// whose settings hold. It does not change, and must not be removed before the new environment
	// is destroyed, which leaves nothing else behind. If there is no such environment,
	// fs.ErrNotExist is in the error's chain; one that is not kept is an error (KindStart), and so
	// is one whose files are not all there.
	Restore(ctx context.Context, id string, opts CreateOptions) (Environment, error)
}

// Restore returns p's Restore of the environment id, with the retries of p's Retry, which the new
// environment has, too. errors.ErrUnsupported is in the chain if p is no Restorer.
func Restore(ctx context.Context, p Provider, id string, opts CreateOptions) (env Environment, err error) {
	restorer, ok := As[Restorer](p)
	if !ok {
		return nil, unsupported("continue with an environment that was kept")
	}
	policy := policyOf(p)
	err = policy.do(ctx, "create", func() error {
		env, err = restorer.Restore(ctx, id, opts)
		return err
	})
	if err != nil {
		return nil, err
	}
	return retryEnvironment{env, policy}, nil
}

// OutcomeKeeper is an Environment whose files can be kept while its processes go on. Its Provider
// is a Restorer. Without it, environment.keep has no effect but a warning, and rollout verify finds
// environments only as the tests left them.
type OutcomeKeeper interface {
	// KeepOutcome keeps the files of the environment as they are at one moment, in a new
	// environment that outlives this one: List returns it, Kept, with the labels of this one and
	// its Size, also if this process is killed; Restore continues with its files; Remove removes
	// it. Processes do not run while files are copied, and go on then; those that were stopped
	// before stay so. It may only be called between commands.
	//
	// The values of the environment's variables (CreateOptions.Env) are not kept. Neither are
	// mounts of provider_config, and files that the provider itself manages, such as /etc/hosts.
	// Fails with KindSnapshot if other files are stored where they cannot be kept, such as volumes
	// and memory: the error names a path; if they are more than the provider can copy; or if values
	// of variables would be kept. If it fails, nothing is kept, and the processes go on.
	KeepOutcome(ctx context.Context) (Outcome, error)
}

// Outcome identifies the files that KeepOutcome kept.
type Outcome struct {
	ID   string // for Restore and Remove
	Size int64  // as in Listed
}

// KeepOutcome returns env's KeepOutcome, with the retries of its provider's Retry.
// errors.ErrUnsupported is in the chain if env is no OutcomeKeeper.
func KeepOutcome(ctx context.Context, env Environment) (kept Outcome, err error) {
	keeper, ok := As[OutcomeKeeper](env)
	if !ok {
		return Outcome{}, unsupported("keep the files of an environment whose processes go on")
	}
	err = policyOf(env).do(ctx, "keep", func() error {
		kept, err = keeper.KeepOutcome(ctx)
		return err
	})
	return kept, err
}

// TerminalRunner is an Environment that can run commands on a terminal. Without it, rollout shell
// has no line editing, no job control and no full-screen programs, and Ctrl-C ends it.
type TerminalRunner interface {
	// ExecTerminal runs a script as Exec does, on a new terminal of the environment. The terminal
	// is the script's standard input, output and error, and the controlling terminal of its
	// session, so that the bytes of Ctrl-C and Ctrl-Z are signals for the foreground processes.
	// opts.Stdin is the typed input; its end does not end the script's input, because Ctrl-D is
	// typed, too. All output goes to opts.Stdout. opts.Stderr is not used. The terminal has t's
	// size soon after the script begins at the latest.
	ExecTerminal(ctx context.Context, script string, opts ExecOptions, t Terminal) (int, error)
}

// Terminal describes the terminal of a user.
type Terminal struct {
	Size    TerminalSize        // the zero value: unknown
	Resized <-chan TerminalSize // receives each new size; nil: it never changes
}

// TerminalSize is the size of a terminal in characters.
type TerminalSize struct{ Columns, Rows uint16 }

// ExecTerminal runs a script on a terminal of env, with the retries of its provider's Retry for
// commands that did not begin. errors.ErrUnsupported is in the chain if env is no TerminalRunner.
func ExecTerminal(ctx context.Context, env Environment, script string, opts ExecOptions, t Terminal) (code int, err error) {
	runner, ok := As[TerminalRunner](env)
	if !ok {
		return -1, unsupported("run a command on a terminal")
	}
	again := func(err error) bool { return IsTransient(err) && errors.Is(err, ErrNotBegun) }
	err = policyOf(env).repeat(ctx, "exec", again, func() error {
		code, err = runner.ExecTerminal(ctx, script, opts, t)
		return err
	})
	return code, err
}

// MemoryReporter is an Environment that notices when processes are killed for lack of memory.
// Without it, such a process is reported as killed by SIGKILL.
type MemoryReporter interface {
	// OOMKills returns the number of processes of the environment that are known to have been
	// killed because it exceeded its memory limit: 0 is no proof. It is only for messages, and can
	// be forged from inside.
	OOMKills(ctx context.Context) int
}

// OOMKills returns env's OOMKills, or 0 if env is no MemoryReporter.
func OOMKills(ctx context.Context, env Environment) int {
	if m, ok := As[MemoryReporter](env); ok {
		return m.OOMKills(ctx)
	}
	return 0
}

// ProcessReporter is an Environment that counts its processes. Without it, tests that fail because
// an agent left no room for their processes count as failed by themselves.
type ProcessReporter interface {
	// Processes returns the number of processes and threads in the environment, and its limit.
	// Processes that the provider needs may count. 0, 0: it is not known, or not limited.
	Processes(ctx context.Context) (n, limit int64)
}

// Crowded reports whether hardly any process can begin in env, because others fill its limit; false
// if env is no ProcessReporter.
func Crowded(ctx context.Context, env Environment) bool {
	p, ok := As[ProcessReporter](env)
	if !ok {
		return false
	}
	n, limit := p.Processes(ctx)
	const few = 8 // what the last command may have used: a shell and some programs
	return limit > 0 && n >= limit-max(few, limit/32)
}

// LimitReporter is an Environment that may not enforce all of its Limits. Without it, all are
// enforced.
type LimitReporter interface {
	// Unenforced returns the limits of CreateOptions that are not enforced: cpus, memory, storage,
	// pids.
	Unenforced() []string
}

// Unenforced returns the limits that env does not enforce, or nil if env is no LimitReporter.
func Unenforced(env Environment) []string {
	if l, ok := As[LimitReporter](env); ok {
		return l.Unenforced()
	}
	return nil
}

// ReadinessReporter is an Environment that knows its image's HEALTHCHECK, or whether its ENTRYPOINT
// may still be starting. Without it, an environment is ready when CreateEnvironment returns.
type ReadinessReporter interface {
	// Readiness returns the image's definition of readiness. It does not change.
	Readiness() Readiness
}

// ReadinessOf returns env's Readiness; the zero value if env is no ReadinessReporter.
func ReadinessOf(env Environment) Readiness {
	if r, ok := As[ReadinessReporter](env); ok {
		return r.Readiness()
	}
	return Readiness{}
}

// BaseReporter is an Environment that may be based on something other than the requested image.
// Without it, it is based on that image.
type BaseReporter interface {
	// Base returns the base of the root file system, with the reason, if it is not the requested
	// image; otherwise nil. It does not change, is the same for all environments of one image, and
	// must not be modified.
	Base() *Base
}

// BaseOf returns env's Base, or nil if env is no BaseReporter.
func BaseOf(env Environment) *Base {
	if b, ok := As[BaseReporter](env); ok {
		return b.Base()
	}
	return nil
}

// Base describes the root file system of an environment that replaces an unavailable image. All
// string fields are set, each to one line for users. Readers of a result need to know: on another
// base there may be other programs.
type Base struct {
	// Requested is the image that the task names: "python:3.12-slim".
	Requested string `json:"requested"`
	// Actual is the replacement, to follow "runs on": "this machine's root, copy-on-write: Debian
	// GNU/Linux 12".
	Actual string `json:"actual"`
	// Reason is why: "docker.io cannot be reached".
	Reason string `json:"reason"`
	// Asked: the job requested this base.
	Asked bool `json:"asked,omitempty"`
}
