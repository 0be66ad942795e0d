package guest

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"

	"github.com/org/rollout-action/internal/environment"
)

// The names under which this program is started in a container, with the path of its file.
const (
	// Dir is a directory that belongs to the guest: an empty volume, which the container's processes may only read.
	Dir = "/.rollout"
	// Program is the command of the container, without arguments.
	Program = Dir + "/rollout-guest"
	// Installer is the file name of this program in an image that has nothing else. Started by it, with Dir as its argument
	// and write access to it, the program copies itself to Program and ends.
	Installer = "rollout-guest-install"
	// Connector is a program in the container that a Dialer starts, as root and without a terminal. Its input and output
	// are the connection.
	Connector = Dir + "/rollout-guest-connect"
)

// Dialer starts Connector in the container and returns its output and input. The guest closes the connection that it
// replaces. A transient error is tried again; any other one ends the environment.
type Dialer func(ctx context.Context) (io.ReadWriteCloser, error)

// Image is what a container's image says about its processes.
type Image struct {
	Env         []string // KEY=value
	User        string   // name or id[:group or id]; empty is 0
	WorkDir     string   // empty is /
	Entrypoint  []string
	Healthcheck *environment.Healthcheck // nil: none
}

// Options describe an environment in a container.
type Options struct {
	Image Image
	Env   map[string]string  // variables of every process, beside the image's
	Files []environment.Copy // copied before the first process starts
	// Network is checked by the caller: the guest serves the proxy of an allowlist, and does not keep processes from using
	// a network device that the container has.
	Network environment.Network
	// Explain returns why the container does not answer any more, such as that the kernel ended it for lack of memory, or
	// nil if it runs, as far as is known. The error is the caller's whole error (an *environment.Error), or one that
	// wraps environment.ErrOutOfMemory or says in plain words what happened. It may be called many times.
	Explain func(ctx context.Context) error
}

// Environment is an environment in a container: an environment.Environment but for ID, Stop, Destroy and Cost, with
// the optional interfaces LoopbackListener, TerminalRunner, MemoryReporter and ReadinessReporter.
type Environment struct{}

var errNotBuilt = errors.New("not built yet")

// Start connects to the guest, copies files and runs the image's ENTRYPOINT, as environment.Provider.CreateEnvironment
// has it. The container must have been started just now, and have run nothing else. If Start fails, the caller ends the container.
func Start(ctx context.Context, dial Dialer, opts Options) (*Environment, error) {
	return nil, errNotBuilt
}

// Close ends the connection. Processes live on; what the guest is asked afterwards fails with KindLost.
func (e *Environment) Close() {}

// KillAll ends all processes but the guest.
func (e *Environment) KillAll(ctx context.Context) error { return errNotBuilt }

// Reaches reports whether a process of the environment can connect to a TCP address, host:port without names, within the
// time that ctx allows. It is no error if it cannot.
func (e *Environment) Reaches(ctx context.Context, address string) (bool, error) {
	return false, errNotBuilt
}

// Connections returns the remote addresses of the TCP connections that processes of the environment have beyond its loopback
// device.
func (e *Environment) Connections(ctx context.Context) ([]string, error) { return nil, errNotBuilt }

// SetProxy serves the proxy of an allowlist to commands, or stops that for other networks. Connections that the
// proxy carried end unless n allows them.
func (e *Environment) SetProxy(ctx context.Context, n environment.Network) error { return errNotBuilt }

// CopyTo implements environment.Environment.
func (e *Environment) CopyTo(ctx context.Context, files ...environment.Copy) error {
	return errNotBuilt
}

// CopyFrom implements environment.Environment.
func (e *Environment) CopyFrom(ctx context.Context, src, dst string, opts environment.ExtractOptions) (environment.Extracted, error) {
	return environment.Extracted{}, errNotBuilt
}

// Exec implements environment.Environment.
func (e *Environment) Exec(ctx context.Context, script string, opts environment.ExecOptions) (int, error) {
	return -1, errNotBuilt
}

// ExecTerminal implements environment.TerminalRunner.
func (e *Environment) ExecTerminal(ctx context.Context, script string, opts environment.ExecOptions, t environment.Terminal) (int, error) {
	return -1, errNotBuilt
}

// ListenLoopback implements environment.LoopbackListener.
func (e *Environment) ListenLoopback(ctx context.Context) (net.Listener, error) {
	return nil, errNotBuilt
}

// OOMKills implements environment.MemoryReporter.
func (e *Environment) OOMKills(ctx context.Context) int { return 0 }

// Readiness implements environment.ReadinessReporter.
func (e *Environment) Readiness() environment.Readiness { return environment.Readiness{} }

// ProgramFS returns a file system with this program as the one file Installer, for an image: it must run on the
// containers' platform, which the caller checks. It fails if this program is not linked statically.
func ProgramFS() (fs.FS, error) { return nil, errNotBuilt }
