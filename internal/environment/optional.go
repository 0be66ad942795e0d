package environment

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// As returns the optional interface T of a Provider or an Environment, or of what it wraps: a wrapper has a method Unwrap
// that returns what is inside. ok is false if neither has T. Callers that only want a value or a default use the functions
// below, which say what a missing interface means.
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

// unsupported is the error of a provider that lacks an optional interface. errors.ErrUnsupported is in its chain.
func unsupported(what string) error {
	return fmt.Errorf("this provider cannot %s: %w", what, errors.ErrUnsupported)
}

// Backend is a Provider that can lose what it works with, such as an engine.
type Backend interface {
	// Reachable waits a while for a backend that does not answer, and returns why not if it still does not. The error's kind is
	// KindUnavailable, and its hint the way out. While all is well it asks nothing.
	Reachable(ctx context.Context) error
}

// Reachable returns why p's backend does not answer. It returns nil if p is no Backend.
func Reachable(ctx context.Context, p Provider) error {
	if b, ok := As[Backend](p); ok {
		return b.Reachable(ctx)
	}
	return nil
}

// ImageIdentifier is a Provider that can tell whether two images have the same content. Without it, results are not reused
// (run --reuse), and agents are installed in every trial.
type ImageIdentifier interface {
	// ImageID identifies the content of an image that was built, pulled or kept by Snapshot: where it is the same,
	// environments begin with the same files and settings. Another build of a reference has another. It is opaque.
	// ErrNoImage is in the chain if the provider does not have ref.
	ImageID(ctx context.Context, ref string) (string, error)
}

// ImageID returns p's ImageID of ref, trying again as p's Retry says. errors.ErrUnsupported is in the chain if p is no
// ImageIdentifier.
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

// Snapshotter is a Provider that keeps environments as images: all its environments are Snapshottable. It is an
// ImageIdentifier, too. Without it, agents are installed in every trial (agents[].cache_install).
type Snapshotter interface {
	ImageIdentifier

	// FindSnapshot returns the reference of the image that Snapshot keeps under key, whoever made it, and its Description;
	// "" if there is none.
	FindSnapshot(ctx context.Context, key string) (ref, description string, err error)

	// LockSnapshot waits until nobody else holds the lock for key: neither in this process nor, as far as the provider
	// can see to that, in another one of this user. Who holds it looks with FindSnapshot, and makes what is missing.
	// The lock of a process that ends is free.
	LockSnapshot(ctx context.Context, key string) (unlock func(), err error)
}

// FindSnapshot returns p's FindSnapshot of key, trying again as p's Retry says. errors.ErrUnsupported is in the chain if p
// is no Snapshotter.
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

// LockSnapshot returns p's LockSnapshot of key. errors.ErrUnsupported is in the chain if p is no Snapshotter.
func LockSnapshot(ctx context.Context, p Provider, key string) (unlock func(), err error) {
	if snapshots, ok := As[Snapshotter](p); ok {
		return snapshots.LockSnapshot(ctx, key)
	}
	return nil, unsupportedSnapshot()
}

func unsupportedSnapshot() error { return unsupported("keep an environment as an image") }

// Snapshottable is an Environment that can become an image.
type Snapshottable interface {
	// Snapshot ends all processes and keeps the files of the environment as an image, under opts.Key, with the settings
	// of the environment's image (user, working directory, variables, ENTRYPOINT, HEALTHCHECK). It returns the reference for
	// CreateEnvironment. If there was an image under that key, it is replaced; environments of the old one live on.
	// What was mounted into the environment is not kept. After Snapshot, whether it fails or not, only Destroy may be
	// called. When it fails, nothing is kept.
	//
	// Fails with KindSnapshot when this environment cannot be kept: because it has variables of its own
	// (CreateOptions.Env), which images must not have; because a part of its files is not kept with the others, such
	// as volumes and memory; or because opts.Inspect refused, whose error is in the chain.
	Snapshot(ctx context.Context, opts SnapshotOptions) (ref string, err error)
}

// Snapshot keeps env as an image and returns its reference. errors.ErrUnsupported is in the chain if env is not Snapshottable.
func Snapshot(ctx context.Context, env Environment, opts SnapshotOptions) (ref string, err error) {
	if s, ok := As[Snapshottable](env); ok {
		return s.Snapshot(ctx, opts)
	}
	return "", unsupportedSnapshot()
}

// SnapshotOptions say how an environment becomes an image.
type SnapshotOptions struct {
	// Key is what the image is found by: 16 hexadecimal digits or more, of which all count.
	Key string
	// Description is one line for people: what the image is.
	Description string
	// Inspect, if not nil, sees each file, directory and link that the image has and the environment's image has not,
	// or has otherwise. Name is the absolute path; Linkname, Size and, as far as they are kept, extended attributes
	// (PAXRecords) are as archive/tar has them. content need not be read to its end. Whatever is kept has passed it:
	// nothing changes any more when it is first called. An error ends the Snapshot.
	Inspect func(file *tar.Header, content io.Reader) error
}

// ImageStore is a Provider that keeps images for later. Without it, rollout clean --images has nothing to remove.
type ImageStore interface {
	// Images lists what the provider keeps for later, whoever made it: images that were built, snapshots, and what
	// they are made of where that is kept by itself. Images that were pulled are among them only if nobody but
	// this provider uses them.
	Images(ctx context.Context) ([]Image, error)

	// RemoveImage removes one of Images. One that is gone already is no error; one that an environment uses
	// is not removed, which is one.
	RemoveImage(ctx context.Context, id string) error
}

// Image is something that a provider keeps for later.
type Image struct {
	ID   string // for RemoveImage
	Name string // for people: a reference, or what it is; a snapshot's Description is in it
	// Size is how many bytes it takes, at most: where that can be told, what it shares with other images does not count.
	// -1 if it is not known.
	Size int64
	// Used is when it was made or last used, as far as the provider knows: some know of the making alone, or of
	// what this user did on this machine.
	Used  time.Time
	InUse bool     // by an environment, running or kept
	Needs []string // IDs of those in the list that it is made of or stands on
}

// LocalDisk is a Provider that keeps images and the changes of environments on this machine. Without it,
// environment.min_free_disk is about the disk of the results alone.
type LocalDisk interface {
	// Disk returns a directory of this machine on whose file system images and the changes of environments are kept;
	// "" if that is elsewhere, or cannot be told.
	Disk() string
}

// Disk returns p's Disk; "" if p has no LocalDisk.
func Disk(p Provider) string {
	if d, ok := As[LocalDisk](p); ok {
		return d.Disk()
	}
	return ""
}

// NetworkSetter is an Environment whose network can be changed. Without it, a trial's phases must have the same network.
type NetworkSetter interface {
	// SetNetwork changes what the environment may reach. When it returns, no process of the environment can use what n does
	// not allow, those that were there before included, and no connection lives that n does not allow; connections
	// that n allows may be ended, too. Processes live on, and so does what they reach through loopback devices within the
	// environment. It may be called between commands only. After a failure that is not transient the environment must not be used further.
	SetNetwork(ctx context.Context, n Network) error
}

// SetNetwork changes what env may reach, trying again as the Retry of its provider says. errors.ErrUnsupported is in the
// chain if env is no NetworkSetter.
func SetNetwork(ctx context.Context, env Environment, n Network) error {
	setter, ok := As[NetworkSetter](env)
	if !ok {
		return unsupported("change the network of an environment that exists")
	}
	return policyOf(env).do(ctx, "network", func() error { return setter.SetNetwork(ctx, n) })
}

// MemoryReporter is an Environment that notices when processes are killed for memory. Without it, such a process is
// reported as one that SIGKILL ended.
type MemoryReporter interface {
	// OOMKills returns how many processes of the environment have been killed because it needed more memory than its limit, as
	// far as that is known: 0 is no proof of none. It is for people to read, and may be forged from within.
	OOMKills(ctx context.Context) int
}

// OOMKills returns env's OOMKills; 0 if env is no MemoryReporter.
func OOMKills(ctx context.Context, env Environment) int {
	if m, ok := As[MemoryReporter](env); ok {
		return m.OOMKills(ctx)
	}
	return 0
}

// LimitReporter is an Environment that may not apply all of its Limits. Without it, all are applied.
type LimitReporter interface {
	// Unenforced returns the limits of CreateOptions that are not applied: cpus, memory, storage, pids.
	Unenforced() []string
}

// Unenforced returns the limits that env does not apply; nil if env is no LimitReporter.
func Unenforced(env Environment) []string {
	if l, ok := As[LimitReporter](env); ok {
		return l.Unenforced()
	}
	return nil
}

// ReadinessReporter is an Environment that knows its image's HEALTHCHECK, or that its ENTRYPOINT may still be at work.
// Without it, an environment is ready when CreateEnvironment returns.
type ReadinessReporter interface {
	// Readiness returns what the image says of when the environment is ready. It does not change.
	Readiness() Readiness
}

// ReadinessOf returns env's Readiness; the zero value if env is no ReadinessReporter.
func ReadinessOf(env Environment) Readiness {
	if r, ok := As[ReadinessReporter](env); ok {
		return r.Readiness()
	}
	return Readiness{}
}

// BaseReporter is an Environment that may stand on something else than the image that was asked for. Without it, it
// stands on that image.
type BaseReporter interface {
	// Base returns what the root file system stands on when that is not the image that was asked for, and
	// why; nil when it is. It does not change, is the same for all environments of one image, and must
	// not be written to.
	Base() *Base
}

// BaseOf returns env's Base; nil if env is no BaseReporter.
func BaseOf(env Environment) *Base {
	if b, ok := As[BaseReporter](env); ok {
		return b.Base()
	}
	return nil
}

// Base is what an environment's root file system stands on instead of an image that could not be had.
// All fields are filled, each with one line for people. They are facts for whoever judges a result: what ran
// on another base may have found other programs there.
type Base struct {
	// Requested is the image that was asked for, as the task names it: "python:3.12-slim".
	Requested string `json:"requested"`
	// Actual is what stands in for it, in words that fit after "runs on":
	// "this machine's root, copy-on-write: Debian GNU/Linux 12".
	Actual string `json:"actual"`
	// Reason is why: "docker.io cannot be reached".
	Reason string `json:"reason"`
	// Asked: the job said that it is to be so.
	Asked bool `json:"asked,omitempty"`
}
