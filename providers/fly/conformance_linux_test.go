package fly

import (
	"testing"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/test/testenv"
)

func TestConformance(t *testing.T) {
	testenv.Long(t, "all of the contract, on a service that runs machines on this machine")
	s := serve(t)
	open := func(t testing.TB) environment.Provider { return s.open(t, nil) }
	s.runs.Conformance(t, open, s.Vanish, lacks, skips)
}
