package result

import (
	"path"
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
	// Verifier is set if the step's tests ran in another environment than the agent.
	Verifier *VerifierEnvironment `json:"verifier,omitempty"`
}
