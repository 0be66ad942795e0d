package result

import "testing"

func TestUnreachableText(t *testing.T) {
	trials := func(unreachable bool, types ...ErrorType) (out []Trial) {
		for _, kind := range types {
			out = append(out, Trial{Error: &Error{Type: kind, Unreachable: unreachable}})
		}
		return out
	}
	for _, c := range []struct {
		trials []Trial
		want   string
	}{
		{nil, ""},
		{append(trials(false, EnvironmentLost), Trial{}), ""},
		{append(trials(true, EnvironmentLost), trials(false, EnvironmentLost)...), "1 trial ended because the provider did not answer any more (environment_lost)"},
		{
			trials(true, EnvironmentStartFailed, EnvironmentLost, EnvironmentLost),
			"3 trials ended because the provider did not answer any more (2 environment_lost, 1 environment_start_failed)",
		},
		{trials(true, "\x1b[31m", "::error::"), "2 trials ended because the provider did not answer any more"},
	} {
		if got := UnreachableText(PackAll(c.trials)); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
