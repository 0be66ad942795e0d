package result

import (
	"path"
	"slices"
	"strings"
	"time"
)

// StepsDir has a directory for each step of a task with steps, named like it. A step's directory
// has a SetupDir, CommandDir, VerifierDir, LogsDir and ArtifactsDir.
const StepsDir = "steps"

// StepDir returns the directory of a step below that of its trial; "" if the name is none that
// Rollout gives.
func StepDir(name string) string {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\\\x00") {
		return ""
	}
	return path.Join(StepsDir, name)
}

// The values of StepRun.VerifiedOn.
const (
	OnOutcome     = "outcome"     // the files as the agent left them
	OnEnvironment = "environment" // the files as the earlier tests left them
	OnArtifacts   = "artifacts"   // a new environment with the artifacts
)

// StepRun is a step in a trial of a task with steps.
type StepRun struct {
	Name    string             `json:"name"`
	Reward  *float64           `json:"reward"`            // as Trial.Reward
	Rewards map[string]float64 `json:"rewards,omitempty"` // as Trial.Rewards
	Error   *Error             `json:"error"`
	// Unmet says which reward was too low for the next step to begin (min_reward); "" if none was.
	Unmet string `json:"unmet,omitempty"`

	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	// SetupSec is the time in which the step's files were copied, its setup script ran, and it
	// became healthy.
	SetupSec          *float64 `json:"setup_sec,omitempty"`
	AgentExecutionSec *float64 `json:"agent_execution_sec"`
	VerifierSec       *float64 `json:"verifier_sec"`

	Usage            *Usage     `json:"usage,omitempty"` // as Trial.Usage
	Cost             USD        `json:"cost"`            // of the model
	StopCondition    string     `json:"stop_condition,omitempty"`
	IsTruncated      bool       `json:"is_truncated,omitempty"`
	VerifierExitCode *int       `json:"verifier_exit_code,omitempty"`
	Artifacts        []Artifact `json:"artifacts,omitempty"`
	// Outcome is set if the files were kept as the step's agent left them (environment.keep).
	Outcome *KeptOutcome `json:"outcome,omitempty"`
	// VerifiedOn says what the tests ran on if the trial was verified again: OnOutcome,
	// OnEnvironment or OnArtifacts; "": they did not run.
	VerifiedOn string `json:"verified_on,omitempty"`
	// Verifier is set if the step's tests ran in another environment than the agent.
	Verifier *VerifierEnvironment `json:"verifier,omitempty"`
}

// VerifiedOn returns what the tests of a trial that was verified again ran on, as
// StepRun.VerifiedOn does; "": it was not verified again, or its steps differ.
func (t Trial) VerifiedOn() (on string) {
	r := t.Reverified
	if r == nil || r.OnlyJudges {
		return ""
	}
	for _, s := range t.Steps {
		switch {
		case s.VerifiedOn == "":
		case on != "" && s.VerifiedOn != on:
			return ""
		default:
			on = s.VerifiedOn
		}
	}
	switch {
	case len(t.Steps) > 0:
		return on
	case r.Artifacts:
		return OnArtifacts
	case r.Outcome:
		return OnOutcome
	}
	return OnEnvironment
}

// Outcomes returns the files of the trial's environment that were kept before tests ran: those of
// each step of its task, if it has steps.
func (t Trial) Outcomes() (all []KeptOutcome) {
	for _, s := range t.Steps {
		if s.Outcome != nil {
			all = append(all, *s.Outcome)
		}
	}
	if len(t.Steps) == 0 && t.Environment != nil && t.Environment.Outcome != nil {
		all = append(all, *t.Environment.Outcome)
	}
	return all
}

// WithoutKept returns the trial without its kept files, which belong to another job.
func (t Trial) WithoutKept() Trial {
	if t.Environment != nil {
		where := *t.Environment
		where.Preserved, where.Outcome = false, nil
		t.Environment = &where
	}
	t.Steps = slices.Clone(t.Steps)
	for i := range t.Steps {
		t.Steps[i].Outcome = nil
	}
	return t
}
