package environmenttest

import (
	"slices"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/environment"
)

// Options adapts the suite to a provider.
type Options struct {
	// New makes a fresh Provider. All that it makes use the same backend: each sees the environments
	// and images of the others. The suite closes them.
	New func(t testing.TB) environment.Provider

	// Image is a reference for CreateEnvironment, and for FROM in a Dockerfile. Its user is root, and it
	// has bash, coreutils, findutils, util-linux's setsid, a user "nobody", and no user "no-such-user".
	Image string

	// Vanish destroys an environment behind the provider's back: the backend has lost it. Nil skips
	// the checks that need it.
	Vanish func(t testing.TB, id string)

	// Forget removes an image that the suite has built. Nil leaves images where they are.
	Forget func(t testing.TB, ref string)

	// Serve makes a server outside of all environments, as Outside does, and returns the host:port at which public
	// environments reach it. An allowlist may name it so. Nil skips the checks of the network.
	Serve func(t testing.TB) string

	// ServeName is Serve with a name in place of the host. Nil skips the check of names.
	ServeName func(t testing.TB) string

	// Local makes servers like Serve's on this machine, and returns the host:port at which its processes reach them and
	// environments must not. Nil skips the check that needs it.
	Local func(t testing.TB) []string

	// NetworkClient is bash that defines three functions of a server's host:port, and serve, which begins to serve like Serve's servers
	// in the background, on loopback at a port. fetch prints what the server says
	// to those who use the door if there is one, direct what it says to those who do not, and stream prints lines from it
	// until the connection ends. Each fails when nothing is reached. BashClient does.
	NetworkClient string

	// Parallel runs checks at once, as many as go test's -parallel says.
	Parallel bool

	// Lacks names the optional interfaces of package environment that the provider and its environments do not implement.
	// Their checks are skipped; all others must be implemented.
	Lacks []string

	// Skip names checks that cannot hold on this backend, each with its reason.
	Skip map[string]string

	hurried bool // the suite's own test: give up soon, and make less of what is slow
	small   bool // the suite's own test: make less of what is slow
}

// patience guards against hanging. No check passes by being faster than another.
func (o Options) patience() time.Duration {
	if o.hurried {
		return 3 * time.Second
	}
	return 2 * time.Minute
}

// brief tells whether a smaller amount will do.
func (o Options) brief() bool { return o.hurried || o.small || testing.Short() }

// check is one promise of the contract. Its name says what must hold.
type check struct {
	name string
	run  func(s *scene)
}

// checks are all promises. Each runs on its own and leaves no environment behind: that is checked
// after every one of them.
func checks() []check {
	return slices.Concat(
		execChecks(), killChecks(), hostileKillChecks(), backgroundChecks(),
		copyToChecks(), copyFromChecks(), hostileChecks(),
		lifecycleChecks(), limitChecks(), networkChecks(), buildChecks(), snapshotChecks(), entrypointChecks(), optionalChecks(),
	)
}

// memoryCheck looks at the memory of the whole process, so it runs alone.
const memoryCheck = "1 GiB of output needs no memory"

// Run runs every check as a subtest.
func Run(t *testing.T, opts Options) {
	all := checks()
	for name := range opts.Skip {
		if !slices.ContainsFunc(all, func(c check) bool { return c.name == name }) {
			t.Errorf("Options.Skip names no check: %q", name)
		}
	}
	for _, name := range opts.Lacks {
		if optional[name] == nil {
			t.Errorf("Options.Lacks names no optional interface: %q", name)
		}
	}
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			if opts.Parallel && c.name != memoryCheck {
				t.Parallel()
			}
			runCheck(t, opts, c)
		})
	}
}

// runCheck runs one check on t, which need not be a *testing.T: the suite's own test records what
// fails.
func runCheck(t testing.TB, opts Options, c check) {
	if reason, skip := opts.Skip[c.name]; skip {
		t.Skip(reason)
	}
	c.run(newScene(t, opts))
}
