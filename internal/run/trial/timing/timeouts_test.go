package timing

import (
	"testing"
	"time"

	"github.com/org/rollout-action/internal/core/config"
	"github.com/org/rollout-action/internal/core/task"
)

func TestTimeoutsOf(t *testing.T) {
	const inTask, override, ceiling = "verifier.timeout_sec in task.toml", "verifier.override_timeout_sec in the job", "verifier.max_timeout_sec in the job"
	for _, tc := range []struct {
		name                 string
		verifier             config.Verifier
		multiplier           float64
		build, install, exec time.Duration
		verify               time.Duration
		key                  string
	}{
		{"the task decides", config.Verifier{}, 1, 10 * time.Second, 20 * time.Second, 30 * time.Second, 40 * time.Second, inTask},
		{"the multiplier applies to all", config.Verifier{}, 1.5, 15 * time.Second, 30 * time.Second, 45 * time.Second, time.Minute, inTask},
		{"the multiplier may shorten", config.Verifier{}, 0.1, time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second, inTask},
		{"the override replaces the verifier's alone", config.Verifier{OverrideTimeoutSec: 7}, 1, 10 * time.Second, 20 * time.Second, 30 * time.Second, 7 * time.Second, override},
		{"the override may be longer", config.Verifier{OverrideTimeoutSec: 70}, 1, 10 * time.Second, 20 * time.Second, 30 * time.Second, 70 * time.Second, override},
		{"the multiplier applies to the override", config.Verifier{OverrideTimeoutSec: 7}, 2, 20 * time.Second, 40 * time.Second, time.Minute, 14 * time.Second, override},
		{"the ceiling bounds the task's", config.Verifier{MaxTimeoutSec: 5}, 1, 10 * time.Second, 20 * time.Second, 30 * time.Second, 5 * time.Second, ceiling},
		{"the ceiling bounds the override", config.Verifier{OverrideTimeoutSec: 7, MaxTimeoutSec: 5}, 1, 10 * time.Second, 20 * time.Second, 30 * time.Second, 5 * time.Second, ceiling},
		{"a ceiling above changes nothing", config.Verifier{OverrideTimeoutSec: 7, MaxTimeoutSec: 8}, 1, 10 * time.Second, 20 * time.Second, 30 * time.Second, 7 * time.Second, override},
		{"the multiplier applies to the ceiling", config.Verifier{MaxTimeoutSec: 5}, 3, 30 * time.Second, time.Minute, 90 * time.Second, 15 * time.Second, ceiling},
	} {
		t.Run(tc.name, func(t *testing.T) {
			job := config.Job{TimeoutMultiplier: tc.multiplier, Verifier: tc.verifier}
			got := TimeoutsOf(job, task.Config{
				Environment: task.Environment{BuildTimeoutSec: 10},
				Agent:       task.Agent{InstallTimeoutSec: 20, TimeoutSec: 30},
				Verifier:    task.Verifier{TimeoutSec: 40},
			})
			want := Timeouts{Build: tc.build, Install: tc.install, Execute: tc.exec, Verify: tc.verify, VerifyKey: tc.key}
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestTimeoutsOfExtremes(t *testing.T) {
	const year = 365 * 24 * 3600
	seconds := func(sec float64) task.Config {
		return task.Config{Agent: task.Agent{TimeoutSec: sec}}
	}
	if got := TimeoutsOf(config.Job{TimeoutMultiplier: 10_000}, seconds(year)).Execute; got < 100*year*time.Second || time.Now().Add(got).Before(time.Now()) {
		t.Errorf("a long time became %v", got)
	}
	if got := TimeoutsOf(config.Job{TimeoutMultiplier: 1e-12}, seconds(1e-3)).Execute; got <= 0 {
		t.Errorf("a short time became %v, which would mean none", got)
	}
}
