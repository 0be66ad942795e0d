package trial_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/result"
)

// core is a provider without optional interfaces, as are its environments.
type core struct{ environment.Provider }

func (c core) CreateEnvironment(ctx context.Context, opts environment.CreateOptions) (environment.Environment, error) {
	env, err := c.Provider.CreateEnvironment(ctx, opts)
	if err != nil {
		return nil, err
	}
	return coreEnv{env}, nil
}

type coreEnv struct{ environment.Environment }

// corePlace is the fake place with a core provider.
func corePlace() place {
	p := fakePlace
	p.open = func(t testing.TB) environment.Provider { return core{fakePlace.open(t)} }
	return p
}

func TestACoreProviderRunsTrials(t *testing.T) {
	t.Parallel()
	o := corePlace().run(t, story{agent: script("true")})
	o.check(t, want{reward: "1"})
	if id := o.Trial.Environment.ImageID; id != "" {
		t.Errorf("the image's id is %q", id)
	}
}

func TestWithoutSnapshotsEveryTrialInstalls(t *testing.T) {
	t.Parallel()
	p := corePlace()
	var installs atomic.Int32
	s := story{agent: cached(""), hooks: counted("install.sh", &installs)}
	sc := p.newScene(t, s)
	tk := s.task(t, p)
	for n := range 2 {
		o := sc.run(s, tk, n+1)
		o.check(t, want{reward: "1"})
		contains(t, "warnings", strings.Join(o.Trial.Warnings, "\n"), "the agent is installed in every trial: this provider cannot ")
	}
	if n := installs.Load(); n != 2 {
		t.Errorf("the install script ran %d times, want 2", n)
	}
}

func TestWithoutNetworkSetterPhasesMustAgree(t *testing.T) {
	t.Parallel()
	var executed atomic.Int32
	s := story{agent: script("true"), hooks: counted("execute.sh", &executed), job: func(j *config.Job) { j.Environment.Network = "none" }}
	corePlace().run(t, s).check(t, want{reward: "1"})
	if n := executed.Load(); n != 1 {
		t.Errorf("the agent ran %d times, want 1", n)
	}
	s.toml = "environment.network_during_verify = true"
	corePlace().run(t, s).check(t, want{
		err:  result.EnvironmentStartFailed,
		says: []string{"begins with the network none and the verifier has public", "the provider fake cannot change the network", "give all phases one network"},
	})
	if n := executed.Load(); n != 1 {
		t.Errorf("the agent ran %d times, want 1: its work is lost", n)
	}
}
