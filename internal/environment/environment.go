package environment

import (
	"context"
	"io"
	"io/fs"
	"time"
)

// Provider makes environments. Its methods are what every provider must have; what only some can do are the optional
// interfaces of this package (see As). All methods may be called by many goroutines at once. Every method
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

	// Close releases what the provider holds (connections). Environments are not touched.
	Close() error
}

// Environment is one running environment. It may implement optional interfaces, too, whose methods follow the same rules.
// It belongs to one trial; its methods are called one at a
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

	// Stop ends all processes but keeps the files, for inspection. The environment is marked as kept,
	// so that Listed.Kept is true and clean-ups leave it alone.
	Stop(ctx context.Context) error

	// Destroy removes the environment and all that belongs to it. May be called at any time, also
	// during an Exec (which then fails), after Stop, twice, and when it is already gone: no error.
	Destroy(ctx context.Context) error

	// Cost is what the environment has cost so far, in US dollars.
	Cost() float64
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

// Listed is an environment as found by List.
type Listed struct {
	ID     string
	Labels Labels
	Kept   bool // by Stop
}
