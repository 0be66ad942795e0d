package environment

import (
	"context"
	"io"
	"io/fs"
	"time"
)

// Provider creates environments. Its methods are mandatory; the optional interfaces of this package
// (see As) are for features that only some providers have. All methods are safe for concurrent use.
// Every method obeys ctx: it returns soon after ctx ends and leaves nothing unfinished behind.
// Failures are *Error: Kind classifies the failure, and Transient tells whether a retry may help.
type Provider interface {
	// Name returns the value of environment.type that selects this provider.
	Name() string

	// BuildImage builds an image from a task's environment/ directory and returns its reference.
	// The same content gives the same reference, and an image that exists is not built again (nor
	// one that another process is building), unless NoCache. Fails with KindBuild if the definition
	// is wrong.
	BuildImage(ctx context.Context, opts BuildOptions) (string, error)

	// PullImage makes ref available. It does not fetch an image that is present. Fails with
	// KindPull. progress, if not nil, receives lines for users.
	PullImage(ctx context.Context, ref string, progress func(string)) error

	// CreateEnvironment creates and starts an environment from an image. If it fails, nothing is
	// left.
	//
	// It runs the image's ENTRYPOINT as the image's user, in the image's working directory, with
	// the variables of the image and Env. The arguments are Idle, a command that does nothing and
	// does not end; the image's CMD does not run. Its output is discarded. The environment exists
	// as long as the ENTRYPOINT runs: when it exits, whatever its exit code, all other processes
	// end and the environment is lost. A signal from within the environment that kills it does not
	// count as an exit. Processes of the ENTRYPOINT ran before every command, so they and their
	// children survive a Timeout of Exec.
	//
	// CreateEnvironment returns when the ENTRYPOINT has run its arguments, or after HandoverTime.
	// If the image has a HEALTHCHECK, that decides when the environment is ready, and
	// CreateEnvironment does not wait: see Readiness. If the ENTRYPOINT cannot be started, or exits
	// before the first command has begun, CreateEnvironment or the first Exec fails with KindStart,
	// and the error's Output has the last lines that it printed.
	//
	// Fails with KindResources if the limits cannot be granted, with KindCopy if Files cannot be
	// copied, otherwise with KindStart; ErrNoImage is in the chain if the image is missing.
	CreateEnvironment(ctx context.Context, opts CreateOptions) (Environment, error)

	// List returns the environments with this project's labels, whoever created them, running or
	// not, including those kept by Stop and KeepOutcome.
	List(ctx context.Context) ([]Listed, error)

	// Remove destroys a listed environment. One that is already gone is no error.
	Remove(ctx context.Context, id string) error

	// Close releases the provider's connections. It does not touch environments.
	Close() error
}

// Environment is one running environment. It may have optional interfaces, too, whose methods
// follow the same rules. It belongs to one trial. Its methods are called one at a time, except
// Stop, Destroy and ID, which may be called at any moment; and all may be called while an Exec is
// under way. If the environment is gone, or no longer runs, methods fail with an *Error of
// KindLost.
type Environment interface {
	// ID returns the provider's identifier of the environment, which users see, too (such as a
	// container id).
	ID() string

	// CopyTo copies files into the environment, in order. It creates missing parent directories
	// (0755). All files belong to root and keep the permission bits of their fs.FileMode, even if
	// the image's user is not root. Links and devices in a source are refused (KindCopy). Symbolic
	// links in the environment are resolved inside it.
	CopyTo(ctx context.Context, files ...Copy) error

	// CopyFrom writes the file or directory src of the environment to the local directory dst,
	// which must exist. The content of a directory goes directly into dst. The archive is not
	// trusted: see Extract, which writes it. If src does not exist, the error is fs.ErrNotExist. If
	// src is a link, it is omitted and not followed; links above it are followed inside.
	CopyFrom(ctx context.Context, src, dst string, opts ExtractOptions) (Extracted, error)

	// Exec runs a script with bash -c and returns its exit code. The code of a command that ran is
	// not an error; if signal n killed it, the code is 128+n. Output is passed on as it comes.
	//
	// If the command exits by itself, its background processes live on, even if they write to the
	// command's output later. Exec returns when the output has been read, or half a second after
	// the exit if a background process keeps it open. Later output is read or buffered; a provider
	// may stop reading it, but not before 64 KiB.
	//
	// After Timeout (ErrTimeout) or the end of ctx (ctx.Err()), Exec returns only when every
	// process that the command started is dead, however detached (setsid, nohup, an empty
	// environment, double forks), and with them what later commands, which have ended, left behind.
	// Processes that ran before it live on, and so do their children. If that cannot be achieved,
	// the error is KindLost: the environment must not be used further.
	//
	// If the provider failed before the command began, ErrNotBegun is in the error's chain. If the
	// command began and its state cannot be read any more, the error is KindLost.
	//
	// Writers that fail or block do not stop the command; Exec returns the first write error. A
	// writer that blocks may lose later output, and does not delay Timeout. Stdout and Stderr may
	// be the same writer: then writes never overlap.
	Exec(ctx context.Context, script string, opts ExecOptions) (int, error)

	// Stop ends all processes but keeps the files, for inspection. It marks the environment as
	// kept, so Listed.Kept is true and clean-ups skip it.
	Stop(ctx context.Context) error

	// Destroy removes the environment and everything that belongs to it. It may be called at any
	// time: during an Exec (which then fails), after Stop, twice, and when the environment is
	// already gone, which is no error.
	Destroy(ctx context.Context) error

	// Cost returns what the environment has cost so far, in US dollars. 0 means that the provider
	// does not know.
	Cost() float64
}

// BuildOptions describe an image to build. Context is the task's environment/ directory.
type BuildOptions struct {
	Context  fs.FS
	Name     string            // for users: part of the reference; the provider makes it safe
	NoCache  bool              // force_build: build even if the image exists
	Args     map[string]string // build arguments
	Progress func(string)      // receives lines for users; may be nil. Called by one goroutine at a time.
}

// Limits are the limits of an environment. 0 means the provider's default.
type Limits struct {
	MilliCPUs int64
	Memory    int64 // bytes
	Storage   int64 // bytes, in addition to the image
	Pids      int64
	// GPUs is only set for a GPUProvider. GPUTypes are the types that will do, separated by
	// commas; "" is any.
	GPUs     int64
	GPUTypes string
}

// CreateOptions describe an environment to create.
type CreateOptions struct {
	// Image is a reference. If the image lacks its own working directory, the provider creates it,
	// with its parents: it belongs to root and has mode 0755.
	Image  string
	Limits Limits
	Env    map[string]string // variables of every process
	Labels Labels
	// Network restricts the addresses that the environment can reach, from its first process on. A
	// provider refuses a Network that it cannot enforce (KindStart).
	Network Network
	// Files are copied before the first process starts, as by CopyTo.
	Files []Copy
	// Lifetime is the longest time for which the environment is needed once it has started. It may
	// end by itself afterwards, which removes environments that a killed process left. 0: it never
	// does.
	Lifetime time.Duration
	// Waiting, if not nil, is called while the creation waits for others, such as for a place in a
	// cluster, with words for users to follow the name of the trial: "waits for a node: …". "" ends
	// a wait. The wait is no part of starting: the provider bounds it. One goroutine calls it at a
	// time.
	Waiting func(reason string)
}

// Copy is a tree to copy into an environment.
type Copy struct {
	Src fs.FS  // the content of Src's root becomes the content of Dst
	Dst string // absolute path of a directory
	// Clean removes whatever exists at Dst first: a directory, file or link.
	Clean bool
	// Mode, if not 0, is the permission of Dst itself (such as 0o777), and fs.ModeSticky may be
	// set. By default it is 0755 if Dst is missing, and unchanged if it exists.
	Mode fs.FileMode
	// Links are made below Dst after the files of all copies of one call. They are checked
	// (CheckLinks), and none may be in the place of a file.
	Links []Link
	// Entries, if any, are those that Extract returned for the files of Src: they arrive with these
	// owners, modes, times and names, and a file without an entry, or an entry without its file, is
	// an error.
	Entries []Entry
}

// ExecOptions describe how a command runs. With the zero value it runs as the image's user, in the
// image's working directory, with the image's environment, without input, and its output is
// discarded.
type ExecOptions struct {
	Env     map[string]string // added to the environment's; never visible in a process's arguments
	WorkDir string            // default: the image's
	User    string            // default: the image's
	Stdin   io.Reader         // nil: empty
	Stdout  io.Writer         // nil: discarded
	Stderr  io.Writer
	// Timeout limits how long the command runs, by the clock of the machine that runs it: a broken
	// connection between this process and the environment makes no command late that has ended in
	// time. Time in which the command waits for such a connection does not count. 0: none.
	Timeout time.Duration
	// Ran, if not nil, is set to the part of Timeout that the command has used, if the provider
	// measures it in the environment, and otherwise left as it is.
	Ran *time.Duration
}

// Listed is an environment returned by List.
type Listed struct {
	ID     string
	Labels Labels
	Kept   bool // by Stop or KeepOutcome
	// Size is the most bytes that KeepOutcome may have kept, without those shared with the image if
	// the provider can tell. 0: unknown.
	Size int64
}
