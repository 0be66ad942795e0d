package environmenttest

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest/commands"
	"github.com/org/rollout-action/internal/core/environment/environmenttest/lifecycle"
	"github.com/org/rollout-action/internal/core/environment/environmenttest/suite"
	"github.com/org/rollout-action/internal/test/testenv"
)

// broken is a mutant with the checks that must notice it.
type broken struct {
	what   string
	checks []string // names, or prefixes of names followed by "*"
	hooks  hooks
}

// patience is the time limit of checks for mutants that hang.
const patience = 3 * time.Second

// TestEveryCheckCanFail breaks one promise at a time and expects its checks to fail. In the end,
// every check must have failed for a mutant.
func TestEveryCheckCanFail(t *testing.T) {
	never := map[string]bool{}
	for _, c := range checks() {
		never[c.Name] = true
	}
	for _, b := range slices.Concat(execMutants, killMutants, copyToMutants, copyFromMutants, lifecycleMutants, limitMutants, networkMutants, buildMutants, snapshotMutants, entrypointMutants, terminalMutants, loopbackMutants, restoreMutants, outcomeMutants, changeMutants, serviceMutants, optionalMutants) {
		for _, c := range matching(t, b.checks) {
			delete(never, c.Name)
			t.Run(b.what+"/"+c.Name, func(t *testing.T) {
				t.Parallel()
				r := recordSomewhere(t, c, b.hooks.programs, func(o Options) Options {
					o.Hurry = cmp.Or(b.hooks.patience, patience)
					return mutantOptions(o, b.hooks)
				})
				failed, why := r.failed()
				t.Log(why)
				if !failed {
					t.Errorf("the check passes although a provider %s (skipped: %q)", b.what, r.skipped)
				}
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(never)) {
		t.Errorf("no mutant makes this check fail: %q", name)
	}
}

// matching returns the checks with these names.
func matching(t *testing.T, names []string) []suite.Check {
	var found []suite.Check
	for _, name := range names {
		before := len(found)
		for _, c := range checks() {
			if matches(name, c.Name) {
				found = append(found, c)
			}
		}
		if len(found) == before {
			t.Errorf("no check is named %q", name)
		}
	}
	return found
}

// matches reports whether name is check, or a prefix of it followed by "*".
func matches(name, check string) bool {
	start, open := strings.CutSuffix(name, "*")
	return name == check || open && strings.HasPrefix(check, start)
}

// recordSomewhere runs a check on the fake provider or, if that lacks a feature, on sandboxes. It
// skips or fails the test if there are no sandboxes here, or if they lack it, too.
func recordSomewhere(t *testing.T, c suite.Check, programs bool, change func(Options) Options) *recorder {
	t.Helper()
	if !programs {
		if r := record(t, change(fakeOptions()), c); r.skipped == "" {
			return r
		}
	}
	opts := sandboxOptions(t)
	if reason, skip := opts.Skip[c.Name]; skip {
		t.Skip(reason)
	}
	t.Log("on sandboxes")
	r := record(t, change(opts), c)
	if r.skipped == "Unenforced names pids" {
		testenv.Lacks(t, "docker", "sandboxes that limit the number of processes") // root's do
	}
	return r
}

// mutantOptions are options whose provider is broken.
func mutantOptions(opts Options, h hooks) Options {
	if !h.core {
		opts.Lacks = slices.DeleteFunc(opts.Lacks, func(name string) bool { return name == suite.BaseReporter }) // which brokenEnv is
	}
	if h.services != nil {
		opts.Lacks = slices.DeleteFunc(opts.Lacks, func(name string) bool { return name == suite.ServiceProvider })
	}
	inner := opts.New
	opts.New = func(t testing.TB) environment.Provider {
		m := &mutant{Provider: inner(t), hooks: h}
		if h.core {
			return coreProvider{m}
		}
		if h.services != nil {
			return serviceProvider{m}
		}
		return m
	}
	return opts
}

// Without a defect all checks pass: mutants do not fail because of the recorder, the wrapper or the
// short timeouts.
func TestAnUnmutatedProviderPasses(t *testing.T) {
	for _, name := range []string{
		"output is handed on while the command runs",
		"a timeout kills the command itself",
		"a cancel kills a chain of processes in which each starts the next and dies",
		"a clean copy removes a planted link and spares its target",
		"links on their way out are left behind and listed",
		"destroying ends a running command",
		"the same content gives the same image and is built once",
	} {
		for _, c := range matching(t, []string{name}) {
			t.Run(c.Name, func(t *testing.T) {
				r := recordSomewhere(t, c, false, func(o Options) Options {
					if o.Small = true; o.Serve == nil { // it is the fake provider, which is quicker than sandboxes
						o.Hurry = patience
					}
					return mutantOptions(o, hooks{})
				})
				if failed, why := r.failed(); failed {
					t.Error(why)
				}
			})
		}
	}
}

// A base other than the image is no defect if the provider reports it.
func TestAProviderWithASubstituteImagePasses(t *testing.T) {
	for _, c := range matching(t, []string{"a base other than the image is reported in full, *"}) {
		opts := mutantOptions(fakeOptions(), hooks{base: func(*brokenEnv) *environment.Base { base := *standIn; return &base }})
		if failed, why := record(t, opts, c).failed(); failed {
			t.Error(why)
		}
	}
}

// A provider without optional interfaces passes, except that it reports the limits that it does not
// apply.
func TestCoreOnlyProviderPasses(t *testing.T) {
	core := func(o Options) Options {
		o.Small = true
		o.Lacks = slices.DeleteFunc(slices.Sorted(maps.Keys(suite.Optional)), func(name string) bool { return name == suite.LimitReporter })
		return mutantOptions(o, hooks{core: true})
	}
	var skipped atomic.Int32
	var run []suite.Check
	for _, c := range checks() {
		// Of what the fake provider lacks, sandboxes need only show what depends on optional
		// interfaces.
		if fakeSkips()[c.Name] == "" || slices.ContainsFunc(slices.Concat(commands.EntrypointChecks(), lifecycle.LimitChecks()), func(o suite.Check) bool { return o.Name == c.Name }) {
			run = append(run, c)
		}
	}
	t.Run("checks", func(t *testing.T) {
		for _, c := range run {
			t.Run(c.Name, func(t *testing.T) {
				t.Parallel()
				r := recordSomewhere(t, c, false, core)
				if failed, why := r.failed(); failed {
					t.Error(why)
				}
				if r.skipped != "" {
					skipped.Add(1)
				}
			})
		}
	})
	if n := int(skipped.Load()); n > len(run)/3 {
		t.Errorf("%d of %d checks were skipped", n, len(run))
	}
}

// A reason skips a check, and an unknown name of a check is an error.
func TestSkip(t *testing.T) {
	opts := mutantOptions(fakeOptions(), hooks{name: func() string { return "" }})
	opts.Skip = map[string]string{"a provider has a name": "for no good reason"}
	c := matching(t, []string{"a provider has a name"})[0]
	if r := record(t, opts, c); r.skipped != "for no good reason" {
		t.Errorf("the check was skipped for %q", r.skipped)
	}
}
