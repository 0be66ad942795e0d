package hostedtest

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest"
	"github.com/org/rollout-action/internal/test/testenv"
)

// needOthers lists the checks that need users other than root.
var needOthers = []string{
	"a working directory that the image lacks is made",
	"a timeout kills a command of a user who is not root",
	"an ENTRYPOINT runs as the image's user",
	"a command runs where and as whom it is told",
	"a terminal belongs to the command's user",
	"the mode of the destination is as asked for",
	"a user who is not root can read copied files",
	"files arrive with the owners, modes, times and names that they had",
}

// Conformance runs the contract's checks on a provider whose service runs commands in s. open
// connects to the service, vanish ends an environment from outside. lacks and skip are those of
// environmenttest.Options; what sandboxes of this machine and its user cannot show is skipped, too.
func (s *Sandboxes) Conformance(t *testing.T, open func(testing.TB) environment.Provider, vanish func(id string), lacks []string, skip map[string]string) {
	t.Helper()
	all := map[string]string{"memory is limited": "the sandboxes in which the service runs commands do not show their control group"}
	if s.OneID(t) {
		for _, name := range needOthers {
			all[name] = "this user has one id: root is the only user of an environment here"
		}
	}
	maps.Copy(all, skip)
	environmenttest.Run(t, environmenttest.Options{
		New:           open,
		Image:         testenv.Image,
		Vanish:        func(_ testing.TB, id string) { vanish(id) },
		Serve:         func(t testing.TB) string { return s.Hosts.Outside(t) },
		ServeName:     func(t testing.TB) string { return s.Hosts.OutsideByName(t) },
		Local:         func(t testing.TB) []string { return s.Hosts.Machine(t) },
		NetworkClient: environmenttest.BashClient,
		Parallel:      true,
		Less:          true,
		Lacks:         lacks,
		Skip:          all,
	})
}

// Create creates an environment, which ends with the test.
func Create(t testing.TB, p environment.Provider, opts environment.CreateOptions) environment.Environment {
	t.Helper()
	opts.Image, opts.Labels.Job = testenv.Image, "faults"
	e, err := p.CreateEnvironment(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Destroy(context.Background()); err != nil { // t's context has ended
			t.Error(err)
		}
	})
	return e
}

// Connections returns how many connections a trial that began then may have taken: one, and another
// for each time in which a machine that is slow may have been silent long enough to lose it.
func Connections(began time.Time) int {
	const silent = 15 * time.Second // podinit's silentTime
	return 1 + int(time.Since(began)/silent)
}
