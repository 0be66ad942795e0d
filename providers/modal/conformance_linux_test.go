package modal

import (
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/testenv"
)

func TestConformance(t *testing.T) {
	testenv.Long(t, "all of the contract, on a service that runs sandboxes on this machine")
	s := serve(t)
	open := func(t testing.TB) environment.Provider { return s.open(t, nil) }
	s.runs.Conformance(t, open, s.Vanish, lacks, map[string]string{
		"256 MiB of output needs no memory": "the service is in this process, and keeps output for connections that break",
	})
}
