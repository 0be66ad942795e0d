package report

import (
	"testing"

	"github.com/org/rollout-action/internal/core/result"
)

func TestUnreachableText(t *testing.T) {
	trials := func(unreachable bool, types ...result.ErrorType) (out []result.Trial) {
		for _, kind := range types {
			out = append(out, result.Trial{Error: &result.Error{Type: kind, Unreachable: unreachable}})
		}
		return out
	}
	for _, c := range []struct {
		trials []result.Trial
		want   string
	}{
		{nil, ""},
		{append(trials(false, result.EnvironmentLost), result.Trial{}), ""},
		{append(trials(true, result.EnvironmentLost), trials(false, result.EnvironmentLost)...), "1 trial ended because the provider did not answer any more (environment_lost)"},
		{
			trials(true, result.EnvironmentStartFailed, result.EnvironmentLost, result.EnvironmentLost),
			"3 trials ended because the provider did not answer any more (2 environment_lost, 1 environment_start_failed)",
		},
		{trials(true, "\x1b[31m", "::error::"), "2 trials ended because the provider did not answer any more"},
	} {
		if got := UnreachableText(result.PackAll(c.trials)); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
