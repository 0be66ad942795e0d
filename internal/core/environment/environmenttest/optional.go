package environmenttest

import (
	"slices"

	"github.com/org/rollout-action/internal/core/environment"
)

// The optional interfaces of package environment, by their names in Options.Lacks.
const (
	imageIdentifier   = "ImageIdentifier"
	snapshotter       = "Snapshotter"
	imageStore        = "ImageStore"
	networkSetter     = "NetworkSetter"
	terminalRunner    = "TerminalRunner"
	loopbackListener  = "LoopbackListener"
	restorer          = "Restorer"
	outcomeKeeper     = "OutcomeKeeper"
	memoryReporter    = "MemoryReporter"
	processReporter   = "ProcessReporter"
	limitReporter     = "LimitReporter"
	readinessReporter = "ReadinessReporter"
	baseReporter      = "BaseReporter"
	changeReporter    = "ChangeReporter"
)

// optional reports for each optional interface with checks whether a provider and its environments
// implement it.
var optional = map[string]func(p environment.Provider, env environment.Environment) bool{
	imageIdentifier: func(p environment.Provider, _ environment.Environment) bool {
		return has[environment.ImageIdentifier](p)
	},
	snapshotter: func(p environment.Provider, env environment.Environment) bool {
		return has[environment.Snapshotter](p) && has[environment.Snapshottable](env)
	},
	imageStore: func(p environment.Provider, _ environment.Environment) bool { return has[environment.ImageStore](p) },
	networkSetter: func(_ environment.Provider, env environment.Environment) bool {
		return has[environment.NetworkSetter](env)
	},
	terminalRunner: func(_ environment.Provider, env environment.Environment) bool {
		return has[environment.TerminalRunner](env)
	},
	loopbackListener: func(_ environment.Provider, env environment.Environment) bool {
		return has[environment.LoopbackListener](env)
	},
	restorer: func(p environment.Provider, _ environment.Environment) bool { return has[environment.Restorer](p) },
	outcomeKeeper: func(p environment.Provider, env environment.Environment) bool {
		return has[environment.Restorer](p) && has[environment.OutcomeKeeper](env)
	},
	memoryReporter: func(_ environment.Provider, env environment.Environment) bool {
		return has[environment.MemoryReporter](env)
	},
	processReporter: func(_ environment.Provider, env environment.Environment) bool {
		return has[environment.ProcessReporter](env)
	},
	limitReporter: func(_ environment.Provider, env environment.Environment) bool {
		return has[environment.LimitReporter](env)
	},
	readinessReporter: func(_ environment.Provider, env environment.Environment) bool {
		return has[environment.ReadinessReporter](env)
	},
	baseReporter: func(_ environment.Provider, env environment.Environment) bool {
		return has[environment.BaseReporter](env)
	},
	changeReporter: func(_ environment.Provider, env environment.Environment) bool {
		return has[environment.ChangeReporter](env)
	},
}

func has[T any](v any) bool {
	_, ok := environment.As[T](v)
	return ok
}

// optionalChecks check the set of optional interfaces.
func optionalChecks() []check {
	return []check{
		{"a provider has every optional interface but those that Options.Lacks names", checkOptional},
	}
}

func checkOptional(s *scene) {
	env := s.create()
	for name, implemented := range optional {
		if got, want := implemented(s.provider, env.Environment), !s.lacks(name); got != want {
			s.Errorf("%s is implemented: %t, want %t", name, got, want)
		}
	}
}

func (s *scene) lacks(name string) bool { return slices.Contains(s.opts.Lacks, name) }

// needs skips the check if the provider lacks one of these optional interfaces.
func (s *scene) needs(names ...string) {
	s.Helper()
	for _, name := range names {
		if s.lacks(name) {
			s.Skipf("Options.Lacks names %s", name)
		}
	}
}

// needing returns a check that is skipped if the provider lacks an optional interface.
func needing(name string, run func(s *scene)) func(s *scene) {
	return func(s *scene) {
		s.needs(name)
		run(s)
	}
}
