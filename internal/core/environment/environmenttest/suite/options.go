package suite

import (
	"cmp"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
)

// Options adapts the suite to a provider.
type Options struct {
	// New returns a new Provider. All of them use the same backend: each sees the environments and
	// images of the others. The suite closes them.
	New func(t testing.TB) environment.Provider

	// Image is a reference for CreateEnvironment, and for FROM in a Dockerfile. Its user is root,
	// and it has bash, coreutils, findutils, util-linux's setsid, a user "nobody", and no user
	// "no-such-user".
	Image string

	// Vanish destroys an environment behind the provider's back, as if the backend had lost it. nil
	// skips the checks that need it.
	Vanish func(t testing.TB, id string)

	// Forget removes an image that the suite has built. nil keeps images.
	Forget func(t testing.TB, ref string)

	// Serve starts a server outside of all environments, like Outside, and returns the host:port at
	// which public environments reach it, and which an allowlist may contain. nil skips the checks
	// of the network.
	Serve func(t testing.TB) string

	// ServeName is Serve with a name in place of the host. nil skips the check of names.
	ServeName func(t testing.TB) string

	// Local starts servers like Serve's on this machine, and returns the host:port at which its
	// processes reach them, and environments must not. nil skips the check that needs it.
	Local func(t testing.TB) []string

	// NetworkClient is a bash script that defines four functions. Three take a server's host:port:
	// fetch prints the server's response through the proxy if there is one, direct its response
	// without the proxy, and stream prints lines from it until the connection ends. Each fails if
	// it reaches nothing, direct within $patience seconds if that is set. serve starts a server
	// like Serve's in the background, on loopback at a port, and returns when it listens. See
	// BashClient.
	NetworkClient string

	// Parallel runs checks in parallel, as many at a time as go test's -parallel says.
	Parallel bool

	// Lacks names the optional interfaces of package environment that the provider and its
	// environments do not implement. Their checks are skipped; all others must be implemented.
	Lacks []string

	// Skip names checks that cannot pass on this backend, each with the reason.
	Skip map[string]string

	// Less asks for smaller amounts of output, of environments at once and of files. It is for a
	// run that another one, with the full amounts, completes: with another configuration of the
	// provider, or by night.
	Less bool

	Hurry time.Duration // for the suite's own test: patience, if not 0, and smaller amounts
	Small bool          // for the suite's own test: smaller amounts
}

// Patience returns the timeout against hanging. No check passes by being fast, and a machine that
// is busy with much else may take minutes where it takes seconds otherwise. Commands that are not
// to end by themselves sleep longer.
func (o Options) Patience() time.Duration {
	return cmp.Or(o.Hurry, 10*time.Minute)
}

// Brief reports whether smaller amounts are enough.
func (o Options) Brief() bool { return o.Hurry > 0 || o.Small || o.Less || testing.Short() }

// Check checks one promise of the contract, which its name states.
type Check struct {
	Name string
	Run  func(s *Scene)
}
