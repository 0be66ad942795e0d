package environmenttest

import (
	"slices"
	"testing"

	"github.com/org/rollout-action/internal/core/environment/environmenttest/commands"
	"github.com/org/rollout-action/internal/core/environment/environmenttest/files"
	"github.com/org/rollout-action/internal/core/environment/environmenttest/images"
	"github.com/org/rollout-action/internal/core/environment/environmenttest/lifecycle"
	"github.com/org/rollout-action/internal/core/environment/environmenttest/network"
	"github.com/org/rollout-action/internal/core/environment/environmenttest/suite"
)

// Options adapts the suite to a provider.
type Options = suite.Options

// checks returns all checks. Each runs on its own and leaves no environment behind, which is
// checked after each.
func checks() []suite.Check {
	return slices.Concat(commands.Checks(), files.Checks(), lifecycle.Checks(), network.Checks(), images.Checks(), optionalChecks())
}

// Run runs every check as a subtest.
func Run(t *testing.T, opts Options) {
	all := checks()
	for name := range opts.Skip {
		if !slices.ContainsFunc(all, func(c suite.Check) bool { return c.Name == name }) {
			t.Errorf("Options.Skip names no check: %q", name)
		}
	}
	for _, name := range opts.Lacks {
		if suite.Optional[name] == nil {
			t.Errorf("Options.Lacks names no optional interface: %q", name)
		}
	}
	for _, c := range all {
		t.Run(c.Name, func(t *testing.T) {
			if opts.Parallel && c.Name != commands.MemoryCheck {
				t.Parallel()
			}
			runCheck(t, opts, c)
		})
	}
}

// runCheck runs one check on t, which need not be a *testing.T: the suite's own test records
// failures.
func runCheck(t testing.TB, opts Options, c suite.Check) {
	if reason, skip := opts.Skip[c.Name]; skip {
		t.Skip(reason)
	}
	c.Run(suite.NewScene(t, opts))
}

// optionalChecks checks the set of optional interfaces.
func optionalChecks() []suite.Check {
	return []suite.Check{
		{Name: "a provider has every optional interface but those that Options.Lacks names", Run: checkOptional},
	}
}

func checkOptional(s *suite.Scene) {
	env := s.Create()
	for name, implemented := range suite.Optional {
		if got, want := implemented(s.Provider, env.Environment), !s.Lacks(name); got != want {
			s.Errorf("%s is implemented: %t, want %t", name, got, want)
		}
	}
}
