package modal

import (
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest"
	"github.com/org/rollout-action/internal/test/testenv"
)

func TestConformance(t *testing.T) {
	testenv.Long(t, "all of the contract, on a service that runs sandboxes on this machine")
	s := serve(t)
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
		Skip: map[string]string{
			"256 MiB of output needs no memory": "the service is in this process, and keeps output for connections that break",
			"memory is limited":                 "the sandboxes in which the service runs commands do not show their control group",
		},
	})
}
