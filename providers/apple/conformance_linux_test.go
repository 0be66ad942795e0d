package apple

import (
	"maps"
	"testing"

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

func TestConformance(t *testing.T) {
	testenv.Long(t, "all of the contract, on a stand-in that runs containers on this machine")
	s := serve(t)
	skip := maps.Clone(skips)
	skip["memory is limited"] = "the sandboxes in which the stand-in runs commands do not show their control group"
	if s.runs.OneID(t) {
		for _, name := range needOthers {
			skip[name] = "this user has one id: root is the only user of a container here"
		}
	}
	environmenttest.Run(t, environmenttest.Options{
		New:           func(t testing.TB) environment.Provider { return s.open(t, nil) },
		Image:         testenv.Image,
		Vanish:        func(_ testing.TB, id string) { s.Vanish(id) },
		Serve:         func(t testing.TB) string { return s.runs.Hosts.Outside(t) },
		ServeName:     func(t testing.TB) string { return s.runs.Hosts.OutsideByName(t) },
		Local:         func(t testing.TB) []string { return s.runs.Hosts.Machine(t) },
		NetworkClient: environmenttest.BashClient,
		Parallel:      true,
		Less:          true,
		Lacks:         lacks,
		Skip:          skip,
	})
}
