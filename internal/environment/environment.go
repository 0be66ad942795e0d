package environment

import (
	"archive/tar"
	"context"
	"io"
	"io/fs"
	"time"
)

// Provider makes environments. All methods may be called by many goroutines at once. Every method
// obeys ctx: it returns soon after ctx ends, leaving nothing half-made behind. Failures are *Error,
// whose Kind says what failed and whose Transient says whether trying again may help.
type Provider interface {
	// Name is the value of environment.type that selects this provider.
	Name() string

	// BuildImage makes an image from a task's environment/ directory and returns its reference. The
	// same content gives the same reference, and an image that exists already is not built again
	// (also when another process builds it at this moment), unless NoCache.
	// Fails with KindBuild when the definition is at fault.
	BuildImage(ctx context.Context, opts BuildOptions) (string, error)

	// PullImage makes ref available. An image that is present already is not fetched again.
	// Fails with KindPull. progress, if not nil, receives lines for people.
	PullImage(ctx context.Context, ref string, progress func(string)) error

	// CreateEnvironment makes and starts an environment from an image. When it fails, nothing is left.
	//
	// The image's ENTRYPOINT is run, as the image's user, in the image's working directory, and with the variables of the
	// image and Env. Its arguments are Idle, a command that does nothing and does not end; the image's CMD is not run. What
	// it prints is thrown away. The environment is there for as long as the ENTRYPOINT runs: when it exits, whatever its exit
	// code, all other processes end and the environment is lost. A signal from within the environment that kills it is no
	// exit. Its processes ran before every command, so that they and what they start live on after a Timeout of Exec.
	//
	// CreateEnvironment returns when the ENTRYPOINT has run its arguments, or after HandoverTime if it has not. If the image
	// has a HEALTHCHECK, that tells when the environment is ready, and nothing is waited for: see Readiness. If the
	// ENTRYPOINT cannot be started, or exits before a command has begun, CreateEnvironment or the first Exec fails with
	// KindStart, and the error's Output has the last lines that it printed.
	//
	// Fails with KindResources when the limits cannot be granted, with KindCopy when Files cannot be put
	// there, else with KindStart; ErrNoImage is in the chain if it is the image that is missing.
	CreateEnvironment(ctx context.Context, opts CreateOptions) (Environment, error)

	// List returns the environments that carry this project's labels, whoever made them, running
	// or not, those kept by Stop included.
	List(ctx context.Context) ([]Listed, error)

	// Remove destroys a listed environment. One that is gone already is no error.
	Remove(ctx context.Context, id string) error

	// ImageID identifies the content of an image that was built, pulled or kept by Snapshot: where it is the same,
	// environments begin with the same files and settings. Another build of a reference has another. It is opaque.
	// ErrNoImage is in the chain if the provider does not have ref.
	ImageID(ctx context.Context, ref string) (string, error)

	// FindSnapshot is the reference of the image that Snapshot keeps under key, whoever made it, and its Description;
	// "" if there is none.
	FindSnapshot(ctx context.Context, key string) (ref, description string, err error)

	// LockSnapshot waits until nobody else holds the lock for key: neither in this process nor, as far as the provider
	// can see to that, in another one of this user. Who holds it looks with FindSnapshot, and makes what is missing.
	// The lock of a process that ends is free.
	LockSnapshot(ctx context.Context, key string) (unlock func(), err error)

	// Images lists what the provider keeps for later, whoever made it: images that were built, snapshots, and what
	// they are made of where that is kept by itself. Images that were pulled are among them only if nobody but
	// this provider uses them.
	Images(ctx context.Context) ([]Image, error)

	// RemoveImage removes one of Images. One that is gone already is no error; one that an environment uses
	// is not removed, which is one.
	RemoveImage(ctx context.Context, id string) error

	// Disk is the directory of this machine on whose file system images and the changes of environments are kept;
	// "" if that is elsewhere, or cannot be told.
	Disk() string

	// Close releases what the provider holds (connections). Environments are not touched.
	Close() error
}

// Environment is one running environment. It belongs to one trial; its methods are called one at a
// time, except Stop, Destroy and ID, which may be called at any moment. A failure to reach it is an
// *Error with KindLost when the environment is no longer there, or no longer runs.
type Environment interface {
	// ID names the environment to its provider and to people (e.g. a container id).
	ID() string

	// CopyTo puts files into the environment, in order. Missing parent directories are made (0755).
	// Everything belongs to root and keeps the permission bits of its fs.FileMode.
	// Works also when the image's user is not root. Links and devices in a source are refused
	// (KindCopy). Symbolic links inside the environment are resolved inside it.
	CopyTo(ctx context.Context, files ...Copy) error

	// CopyFrom writes the file or directory src of the environment into the local directory dst, which
	// exists. For a directory, its content lands directly in dst. The archive is hostile: see
	// Extract, which does the writing. A src that does not exist is fs.ErrNotExist.
	CopyFrom(ctx context.Context, src, dst string, opts ExtractOptions) (Extracted, error)

	// Exec runs a bash script text (bash -c) and returns its exit code; a command that ran has no
	// error whatever its code (killed by signal n: 128+n). Output is handed on as it comes.
	//
	// When the command exits by itself, what it left in the background lives on, also when it
	// writes to the command's output later. Exec returns when the output is drained, or half a
	// second after the exit if a background process holds it open.
	//
	// After Timeout (ErrTimeout) or the end of ctx (ctx.Err()), Exec returns only when every
	// process that the command started is dead, however detached (setsid, nohup, an empty
	// environment, double forks). What ran before it lives on, and so do the children of that.
	// If that cannot be achieved, the error is KindLost: the environment must not be used further.
	//
	// If the command did not begin because the provider failed, ErrNotBegun is in the error's chain. If it did, and cannot be
	// followed any more, the error is KindLost.
	//
	// Writers that fail or block do not stop the command; the first write error is returned. A writer
	// that blocks may lose what comes after, and Timeout ends the command all the same. Stdout and
	// Stderr may be the same writer: it is never written to twice at a time.
	Exec(ctx context.Context, script string, opts ExecOptions) (int, error)

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

	// SetNetwork changes what the environment may reach. When it returns, no process of the environment can use what n does
	// not allow, those that were there before included, and no connection lives that n does not allow; connections
	// that n allows may be ended, too. Processes live on, and so does what they reach through loopback devices within the
	// environment. It may be called between commands only. After a failure that is not transient the environment must not be used further.
	SetNetwork(ctx context.Context, n Network) error

	// Stop ends all processes but keeps the files, for inspection. The environment is marked as kept,
	// so that Listed.Kept is true and clean-ups leave it alone.
	Stop(ctx context.Context) error

	// Destroy removes the environment and all that belongs to it. May be called at any time, also
	// during an Exec (which then fails), after Stop, twice, and when it is already gone: no error.
	Destroy(ctx context.Context) error

	// Cost is what the environment has cost so far, in US dollars.
	Cost() float64

	// OOMKills is how many processes of the environment have been killed because it needed more memory than its limit, as
	// far as that is known: 0 is no proof of none. It is for people to read, and may be forged from within.
	OOMKills(ctx context.Context) int

	// Unenforced names the limits of CreateOptions that are not applied: cpus, memory, storage, pids.
	Unenforced() []string

	// Readiness is what the image says of when the environment is ready. It does not change.
	Readiness() Readiness

	// Base says what the root file system stands on when that is not the image that was asked for, and
	// why; nil when it is. It does not change, is the same for all environments of one image, and must
	// not be written to.
	Base() *Base
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

// BuildOptions describe an image. Context is the task's environment/ directory.
type BuildOptions struct {
	Context  fs.FS
	Name     string            // for people: part of the reference, made safe by the provider
	NoCache  bool              // force_build: build again even if it exists
	Args     map[string]string // build arguments
	Progress func(string)      // lines for people; nil: none. Called by one goroutine at a time.
}

// Limits bound an environment. 0 means the provider's default.
type Limits struct {
	MilliCPUs int64
	Memory    int64 // bytes
	Storage   int64 // bytes, beyond the image
	Pids      int64
}

// CreateOptions describe an environment.
type CreateOptions struct {
	// Image is what it is made of. If the image lacks its own working directory, the directory is made, with its parents: it
	// belongs to root and has the mode 0755.
	Image  string
	Limits Limits
	Env    map[string]string // of every process
	Labels Labels
	// Network is what the environment may reach, from its first process on. A Network that the provider cannot keep is
	// refused (KindStart), never ignored.
	Network Network
	// Files are in place before the first process starts; as CopyTo.
	Files []Copy
}

// Copy is one tree to put into an environment.
type Copy struct {
	Src fs.FS  // the content of Src's root becomes the content of Dst
	Dst string // absolute path of a directory
	// Clean removes whatever was at Dst before, be it a directory, file or link.
	Clean bool
	// Mode, if not 0, is the permission of Dst itself (e.g. 0o777); the default is 0755 if Dst is
	// missing, and unchanged if it exists.
	Mode fs.FileMode
}

// ExecOptions describe how a command runs. The zero value runs it as the image's user in the image's
// working directory with the image's environment, without input, throwing its output away.
type ExecOptions struct {
	Env     map[string]string // added to the environment's; never shown in any process list's arguments
	WorkDir string            // default: the image's
	User    string            // default: the image's
	Stdin   io.Reader         // nil: empty
	Stdout  io.Writer         // nil: thrown away
	Stderr  io.Writer
	Timeout time.Duration // 0: none
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

// Listed is an environment as found by List.
type Listed struct {
	ID     string
	Labels Labels
	Kept   bool // by Stop
}
