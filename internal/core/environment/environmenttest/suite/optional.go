package suite

import (
	"slices"

	"github.com/org/rollout-action/internal/core/environment"
)

// The optional interfaces of package environment, by their names in Options.Lacks.
const (
	ImageIdentifier   = "ImageIdentifier"
	Snapshotter       = "Snapshotter"
	ImageStore        = "ImageStore"
	NetworkSetter     = "NetworkSetter"
	TerminalRunner    = "TerminalRunner"
	LoopbackListener  = "LoopbackListener"
	Restorer          = "Restorer"
	OutcomeKeeper     = "OutcomeKeeper"
	MemoryReporter    = "MemoryReporter"
	ProcessReporter   = "ProcessReporter"
	LimitReporter     = "LimitReporter"
	ReadinessReporter = "ReadinessReporter"
	BaseReporter      = "BaseReporter"
	ChangeReporter    = "ChangeReporter"
	ServiceProvider   = "ServiceProvider"
)

// Optional reports for each optional interface with checks whether a provider and its environments
// implement it.
var Optional = map[string]func(p environment.Provider, env environment.Environment) bool{
	ImageIdentifier: func(p environment.Provider, _ environment.Environment) bool {
		return has[environment.ImageIdentifier](p)
	},
	Snapshotter: func(p environment.Provider, env environment.Environment) bool {
		return has[environment.Snapshotter](p) && has[environment.Snapshottable](env)
	},
	ServiceProvider: func(p environment.Provider, _ environment.Environment) bool {
		return has[environment.ServiceProvider](p)
	},
	ImageStore: func(p environment.Provider, _ environment.Environment) bool { return has[environment.ImageStore](p) },
	NetworkSetter: func(_ environment.Provider, env environment.Environment) bool {
		return has[environment.NetworkSetter](env)
	},
	TerminalRunner: func(_ environment.Provider, env environment.Environment) bool {
		return has[environment.TerminalRunner](env)
	},
	LoopbackListener: func(_ environment.Provider, env environment.Environment) bool {
		return has[environment.LoopbackListener](env)
	},
	Restorer: func(p environment.Provider, _ environment.Environment) bool { return has[environment.Restorer](p) },
	OutcomeKeeper: func(p environment.Provider, env environment.Environment) bool {
		return has[environment.Restorer](p) && has[environment.OutcomeKeeper](env)
	},
	MemoryReporter: func(_ environment.Provider, env environment.Environment) bool {
		return has[environment.MemoryReporter](env)
	},
	ProcessReporter: func(_ environment.Provider, env environment.Environment) bool {
		return has[environment.ProcessReporter](env)
	},
	LimitReporter: func(_ environment.Provider, env environment.Environment) bool {
		return has[environment.LimitReporter](env)
	},
	ReadinessReporter: func(_ environment.Provider, env environment.Environment) bool {
		return has[environment.ReadinessReporter](env)
	},
	BaseReporter: func(_ environment.Provider, env environment.Environment) bool {
		return has[environment.BaseReporter](env)
	},
	ChangeReporter: func(_ environment.Provider, env environment.Environment) bool {
		return has[environment.ChangeReporter](env)
	},
}

func has[T any](v any) bool {
	_, ok := environment.As[T](v)
	return ok
}

// Lacks reports whether Options.Lacks names an optional interface.
func (s *Scene) Lacks(name string) bool { return slices.Contains(s.Opts.Lacks, name) }

// needs skips the check if the provider lacks one of these optional interfaces.
func (s *Scene) needs(names ...string) {
	s.Helper()
	for _, name := range names {
		if s.Lacks(name) {
			s.Skipf("Options.Lacks names %s", name)
		}
	}
}

// Needing returns a check that is skipped if the provider lacks an optional interface.
func Needing(name string, run func(s *Scene)) func(s *Scene) {
	return func(s *Scene) {
		s.needs(name)
		run(s)
	}
}
