package trial_test

import (
	"context"
	"slices"
	"testing"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/environment"
)

// limitless is a provider that applies no limits.
type limitless struct{ environment.Provider }

func (l *limitless) Unwrap() environment.Provider { return l.Provider }

func (l *limitless) CreateEnvironment(ctx context.Context, opts environment.CreateOptions) (environment.Environment, error) {
	env, err := l.Provider.CreateEnvironment(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &limitlessEnv{env}, nil
}

type limitlessEnv struct{ environment.Environment }

func (l *limitlessEnv) Unwrap() environment.Environment { return l.Environment }

func (*limitlessEnv) Unenforced() []string { return []string{"cpus", "memory", "pids", "storage"} }

func TestOnlyRequestedLimitsAreUnenforced(t *testing.T) {
	p := fakePlace
	p.open = func(t testing.TB) environment.Provider { return &limitless{fakePlace.open(t)} }
	cpus, memory, storage := config.MilliCPUs(1000), config.Bytes(2e9), config.Bytes(10e9)
	for _, tc := range []struct {
		name string
		toml string
		job  func(*config.Job)
		want []string
	}{
		{"nobody asked", "", nil, []string{"pids"}},
		{"the task did", "environment.cpus = 1\nenvironment.memory_mb = 100\nenvironment.storage = \"1G\"\n", nil, []string{"cpus", "memory", "pids", "storage"}},
		{"the task did, for one", "environment.memory = \"100Mi\"\n", nil, []string{"memory", "pids"}},
		{"the job did, for the default's CPUs", "", func(job *config.Job) { job.Environment.OverrideCPUs = &cpus }, []string{"cpus", "pids"}},
		{"the job did, for the default's sizes", "", func(job *config.Job) {
			job.Environment.OverrideMemory, job.Environment.OverrideStorage = &memory, &storage
		}, []string{"memory", "pids", "storage"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := p.run(t, story{agent: script("true"), toml: tc.toml, job: tc.job})
			o.check(t, want{reward: "1"})
			if got := o.Trial.Environment.Unenforced; !slices.Equal(got, tc.want) {
				t.Errorf("not enforced: %q, want %q", got, tc.want)
			}
		})
	}
}
