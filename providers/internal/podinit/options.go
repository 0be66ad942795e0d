package podinit

import (
	"context"
	"io"
	"net"

	"github.com/org/rollout-action/internal/core/environment"
)

// The names under which this program is started in a container, with the path of its file.
const (
	// Dir is a directory that belongs to the guest: an empty volume, which the container's
	// processes may only read.
	Dir = "/.rollout"
	// Program is the command of the container, without arguments; see Below.
	Program = Dir + "/rollout-guest"
	// Below is the argument of Program where it cannot be process 1, because the system that starts
	// the container runs its own program there. The guest then adopts the orphans of what it
	// started. Processes that are root can end it, which loses the environment.
	Below = "--below"
	// Installer is the file name of this program in an image that has nothing else. Started by it,
	// with Dir as its argument and write access to it, the program copies itself, or the program of
	// pods that it embeds, to Program and ends.
	Installer = "rollout-guest-install"
	// Connector is a program in the container that a Dialer starts, as root and without a terminal.
	// Its input and output are the connection.
	Connector = Dir + "/rollout-guest-connect"
	// Courier is a program in the container for systems whose commands have no streams: it gets one
	// letter of a mailbox.Conn as its input, and prints the answer. A Dialer there returns such a
	// Conn. Installer does not make it.
	Courier = Dir + "/rollout-guest-mail"
)

// Dialer starts Connector in the container and returns its output and input. The guest closes the
// connection that it replaces. A transient error is tried again; any other one ends the
// environment.
type Dialer func(ctx context.Context) (io.ReadWriteCloser, error)

// Image holds the settings of a container's image for its processes.
type Image struct {
	Env         []string // KEY=value
	User        string   // name or id[:group or id]; empty is 0
	WorkDir     string   // empty is /
	Entrypoint  []string
	Healthcheck *environment.Healthcheck // nil: none
}

// Filler is a program in the container that runs before the guest: for each pair of its arguments,
// it copies the first directory, if there is one, to the second one, if that is empty.
const Filler = Dir + "/rollout-guest-fill"

// Options describe an environment in a container.
type Options struct {
	// Name tells the guests of containers apart that share a network: Program and Connector get it
	// as their only argument. "": neither has one.
	Name string
	// Bare: the image needs no bash. Only Run runs something then.
	Bare bool
	// Connected, if not nil, is called when there is a connection, before files are copied and the
	// ENTRYPOINT runs. Its error is that of Start.
	Connected func(ctx context.Context, e *Environment) error
	Image     Image
	Env       map[string]string  // variables of every process, in addition to the image's
	Files     []environment.Copy // copied before the first process starts
	// Network is checked by the caller: the guest serves the proxy of an allowlist, and does not
	// keep processes from using a network device that the container has.
	Network environment.Network
	// Explain returns why the container does not answer any more, such as that the kernel ended it
	// for lack of memory, or nil if it runs, as far as is known. The error is the caller's whole
	// error (an *environment.Error), or one that wraps environment.ErrOutOfMemory or says in plain
	// words what happened. It may be called many times.
	Explain func(ctx context.Context) error
	// Dial, if not nil, replaces this machine's network for the proxy of an allowlist.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}
