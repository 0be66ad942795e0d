package export

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/org/rollout-action/internal/core/result"
)

// Column is one value of a trial in the flat formats.
type Column struct {
	Name string
	// Value is a string, a bool, an int, an int64 or a float64, or nil where there is none. Strings
	// may be hostile.
	Value func(row) any
}

// Columns lists all columns in the order in which they are written. New ones are added at the end.
// Durations are seconds, times UTC, costs US dollars; an unreported cost is empty.
var Columns = []Column{
	{"example_id", func(r row) any { return result.ExampleID(r.trial.Dataset, r.trial.Task) }},
	{"agent_name", func(r row) any { return r.trial.Agent }},
	{"dataset_name", func(r row) any { return r.trial.Dataset }},
	{"task_name", func(r row) any { return r.trial.Task }},
	{"attempt", func(r row) any { return r.trial.Attempt }},
	{"reward", func(r row) any { return orNil(r.trial.Reward) }},
	{"passed", func(r row) any { return r.trial.Passed() }},
	{"completed", func(r row) any { return r.trial.Completed() }},
	{"failed", func(r row) any { return r.trial.Failed() }},
	{"stop_condition", func(r row) any { return result.StopCondition(*r.trial) }},
	{"error_type", func(r row) any { return ofError(r, func(e *result.Error) any { return string(e.Type) }) }},
	{"error_message", func(r row) any { return ofError(r, func(e *result.Error) any { return e.Message }) }},
	{"advantage", func(r row) any { return ofAdvantage(r, func(a *result.Advantage) any { return a.Plain }) }},
	{"advantage_normalized", func(r row) any { return ofAdvantage(r, func(a *result.Advantage) any { return a.Normalized }) }},
	{"cost", func(r row) any { return dollars(r.trial.Cost) }},
	{"cost_environment", func(r row) any { return dollars(r.trial.Costs.Environment) }},
	{"cost_model", func(r row) any { return dollars(r.trial.Costs.Model) }},
	{"cost_judges", func(r row) any { return dollars(r.trial.Costs.Judges) }},
	{"total_sec", func(r row) any { return r.trial.Durations.TotalSec }},
	{"environment_setup_sec", func(r row) any { return orNil(r.trial.Durations.EnvironmentSetupSec) }},
	{"agent_setup_sec", func(r row) any { return orNil(r.trial.Durations.AgentSetupSec) }},
	{"agent_execution_sec", func(r row) any { return orNil(r.trial.Durations.AgentExecutionSec) }},
	{"verifier_sec", func(r row) any { return orNil(r.trial.Durations.VerifierSec) }},
	{"started_at", func(r row) any { return stamp(&r.trial.Timestamps.StartedAt) }},
	{"environment_setup_started_at", func(r row) any { return stamp(r.trial.Timestamps.EnvironmentSetupStartedAt) }},
	{"environment_setup_ended_at", func(r row) any { return stamp(r.trial.Timestamps.EnvironmentSetupEndedAt) }},
	{"agent_setup_started_at", func(r row) any { return stamp(r.trial.Timestamps.AgentSetupStartedAt) }},
	{"agent_setup_ended_at", func(r row) any { return stamp(r.trial.Timestamps.AgentSetupEndedAt) }},
	{"agent_execution_started_at", func(r row) any { return stamp(r.trial.Timestamps.AgentExecutionStartedAt) }},
	{"agent_execution_ended_at", func(r row) any { return stamp(r.trial.Timestamps.AgentExecutionEndedAt) }},
	{"verifier_started_at", func(r row) any { return stamp(r.trial.Timestamps.VerifierStartedAt) }},
	{"verifier_ended_at", func(r row) any { return stamp(r.trial.Timestamps.VerifierEndedAt) }},
	{"ended_at", func(r row) any { return stamp(&r.trial.Timestamps.EndedAt) }},
	{"environment_provider", func(r row) any { return ofEnvironment(r, func(e *result.Environment) any { return e.Provider }) }},
	{"environment_id", func(r row) any { return ofEnvironment(r, func(e *result.Environment) any { return e.ID }) }},
	{"environment_image", func(r row) any { return ofEnvironment(r, func(e *result.Environment) any { return e.Image }) }},
	{"environment_preserved", func(r row) any { return ofEnvironment(r, func(e *result.Environment) any { return e.Preserved }) }},
	{"unenforced_limits", func(r row) any {
		return ofEnvironment(r, func(e *result.Environment) any { return strings.Join(e.Unenforced, " ") })
	}},
	{"base_actual", func(r row) any { return ofBase(r, func(b *result.Base) any { return b.Actual }) }},
	{"base_requested", func(r row) any { return ofBase(r, func(b *result.Base) any { return b.Requested }) }},
	{"retries", func(r row) any { return len(r.trial.Retries) }},
	{"warnings", func(r row) any { return len(r.trial.Warnings) }},
	{"omitted", func(r row) any { return len(r.trial.Omitted) }},
	{"renamed", func(r row) any { return len(r.trial.Renamed) }},
	{"task_digest", func(r row) any { return r.trial.TaskDigest }},
	{"task_git_commit_id", func(r row) any { return text(r.trial.TaskGitCommitID) }},
	{"job_name", func(r row) any { return r.plan.JobName }},
	{"plan_digest", func(r row) any { return r.plan.Digest }},
	{"commit", func(r row) any { return text(r.plan.Commit) }},
	{"dir", func(r row) any { return r.trial.Dir() }},
	{"agent_digest", func(r row) any { return r.trial.AgentDigest }},
	{"config_digest", func(r row) any { return r.trial.ConfigDigest }},
	{"task_format", func(r row) any { return r.trial.TaskFormat }},
	{"environment_image_id", func(r row) any { return ofEnvironment(r, func(e *result.Environment) any { return e.ImageID }) }},
	{"verifier_exit_code", func(r row) any { return whole(r.trial.VerifierExitCode) }},
	{"artifacts", func(r row) any { return len(r.trial.Artifacts) }},
	{"rewards", rewards},
	{"reused", func(r row) any { return r.trial.Reused != nil }},
	{"reused_job", func(r row) any { return ofReused(r, func(u *result.Reused) any { return u.Job }) }},
	{"reused_from", func(r row) any { return ofReused(r, func(u *result.Reused) any { return u.From }) }},
	{"confirmation", func(r row) any { return r.trial.Confirmation }},
	{"cost_at_least", func(r row) any { return r.trial.Cost.AtLeast() }},
}

// rewards returns the rewards of reward.json as the text of a JSON object, because their names are
// not known in advance.
func rewards(r row) any {
	if len(r.trial.Rewards) == 0 {
		return nil
	}
	text, err := json.Marshal(r.trial.Rewards)
	if err != nil {
		return nil // cannot happen with numbers from a result file
	}
	return string(text)
}

func whole(n *int) any {
	if n == nil {
		return nil
	}
	return *n
}

func orNil(f *float64) any {
	if f == nil {
		return nil
	}
	return *f
}

func dollars(u result.USD) any {
	amount, ok := u.Reported()
	if !ok {
		return nil
	}
	return amount
}

func text(s *string) any {
	if s == nil {
		return nil
	}
	return *s
}

// stamp returns a time in the form of result files.
func stamp(t *time.Time) any {
	if t == nil || t.IsZero() {
		return nil
	}
	return t.Format(time.RFC3339Nano)
}

func ofError(r row, value func(*result.Error) any) any {
	if r.trial.Error == nil {
		return nil
	}
	return value(r.trial.Error)
}

func ofAdvantage(r row, value func(*result.Advantage) any) any {
	if r.advantage == nil {
		return nil
	}
	return value(r.advantage)
}

func ofEnvironment(r row, value func(*result.Environment) any) any {
	if r.trial.Environment == nil {
		return nil
	}
	return value(r.trial.Environment)
}

func ofBase(r row, value func(*result.Base) any) any {
	if r.trial.Environment == nil || r.trial.Environment.Base == nil {
		return nil
	}
	return value(r.trial.Environment.Base)
}

func ofReused(r row, value func(*result.Reused) any) any {
	if r.trial.Reused == nil {
		return nil
	}
	return value(r.trial.Reused)
}
