package environmenttest

import (
	"crypto/rand"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/org/rollout-action/internal/environment"
	"github.com/org/rollout-action/providers/fake"
)

// broken is a mutant with the checks that must notice it.
type broken struct {
	what   string
	checks []string // names, or prefixes of names followed by "*"
	hooks  hooks
}

// TestEveryCheckCanFail breaks one promise at a time and expects its checks to fail. In the end, every check must have failed for
// a mutant.
func TestEveryCheckCanFail(t *testing.T) {
	never := map[string]bool{}
	for _, c := range checks() {
		never[c.name] = true
	}
	for _, b := range slices.Concat(execMutants, killMutants, copyToMutants, copyFromMutants, lifecycleMutants, limitMutants, networkMutants, buildMutants, snapshotMutants, entrypointMutants, optionalMutants) {
		for _, c := range matching(t, b.checks) {
			delete(never, c.name)
			t.Run(b.what+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				r := record(t, mutantOptions(b.hooks), c)
				failed, why := r.failed()
				t.Log(why)
				if !failed {
					t.Errorf("the check passes although a provider %s (skipped: %v)", b.what, r.skipped)
				}
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(never)) {
		t.Errorf("no mutant makes this check fail: %q", name)
	}
}

// matching returns the checks with these names.
func matching(t *testing.T, names []string) []check {
	var found []check
	for _, name := range names {
		before := len(found)
		for _, c := range checks() {
			start, open := strings.CutSuffix(name, "*")
			if c.name == name || open && strings.HasPrefix(c.name, start) {
				found = append(found, c)
			}
		}
		if len(found) == before {
			t.Errorf("no check is named %q", name)
		}
	}
	return found
}

func mutantOptions(h hooks) Options {
	world := fake.NewWorld()
	return Options{
		New: func(testing.TB) environment.Provider {
			m := &mutant{Provider: fake.New(fake.Options{World: world}), hooks: h}
			if h.core {
				return coreProvider{m}
			}
			return m
		},
		Image:     "debian:bookworm",
		Serve:     func(t testing.TB) string { return fakeServer(world) },
		ServeName: func(t testing.TB) string { return fakeServer(world) },
		Local: func(testing.TB) []string {
			world.Serve("127.0.0.1", 8080, "hello")
			return []string{fakeLocal}
		},
		NetworkClient: fake.NetworkClient,
		Vanish:        func(_ testing.TB, id string) { world.Lose(id) },
		hurried:       true,
	}
}

// fakeLocal starts a server of the machine that fake environments run on.
const fakeLocal = "127.0.0.1:8080"

// fakeServer adds a host that no other test has.
func fakeServer(world *fake.World) string {
	host := strings.ToLower(rand.Text()) + ".example"
	world.Serve(host, 8080, "hello")
	return host + ":8080"
}

// Without a defect all checks pass: mutants do not fail because of the recorder, the wrapper or the short timeouts.
func TestTheUnbrokenPasses(t *testing.T) {
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
			t.Run(c.name, func(t *testing.T) {
				if failed, why := record(t, mutantOptions(hooks{}), c).failed(); failed {
					t.Error(why)
				}
			})
		}
	}
}

// A base other than the image is no defect if the provider reports it.
func TestAStandInPasses(t *testing.T) {
	for _, c := range matching(t, []string{"a base other than the image is reported in full, *"}) {
		opts := mutantOptions(hooks{base: func(*brokenEnv) *environment.Base { base := *standIn; return &base }})
		if failed, why := record(t, opts, c).failed(); failed {
			t.Error(why)
		}
	}
}

// A provider without optional interfaces passes, except that it reports the limits that the fake does not apply.
func TestCoreOnlyProviderPasses(t *testing.T) {
	opts := mutantOptions(hooks{core: true})
	opts.hurried, opts.small = false, true
	opts.Lacks = slices.DeleteFunc(slices.Sorted(maps.Keys(optional)), func(name string) bool { return name == limitReporter })
	opts.Skip = map[string]string{"values of variables are in no process's arguments": "the fake has no processes"}
	var ran atomic.Int32
	t.Run("checks", func(t *testing.T) {
		for _, c := range checks() {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				r := record(t, opts, c)
				if failed, why := r.failed(); failed {
					t.Error(why)
				}
				if !r.skipped {
					ran.Add(1)
				}
			})
		}
	})
	if n := int(ran.Load()); n < len(checks())*2/3 {
		t.Errorf("only %d of %d checks ran", n, len(checks()))
	}
}

// A reason skips a check, and an unknown name of a check is an error.
func TestSkip(t *testing.T) {
	opts := mutantOptions(hooks{name: func() string { return "" }})
	opts.Skip = map[string]string{"a provider has a name": "for no good reason"}
	c := matching(t, []string{"a provider has a name"})[0]
	if r := record(t, opts, c); !r.skipped {
		t.Error("the check was not skipped")
	}
}
