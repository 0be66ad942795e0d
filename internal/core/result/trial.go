package result

import (
	"strings"
	"time"
)

// ErrorType is the type of a trial's error. Source: specification, "Error Types"; EnvironmentLost
// and Cancelled are this project's own (see docs/internals/trials.md).
type ErrorType string

// The error types, in the order of the phases that produce them. The comments are the table in
// docs/results.md.
const (
	// TaskInvalid: the files of the task are wrong, so the trial did not start. The message names
	// the first problem.
	TaskInvalid ErrorType = "task_invalid"
	// TaskNotFound: there is no task at the path, so the trial did not start.
	TaskNotFound ErrorType = "task_not_found"
	// EnvironmentBuildFailed: the image of the task could not be built.
	EnvironmentBuildFailed ErrorType = "environment_build_failed"
	// EnvironmentBuildTimeout: building the image took longer than `build_timeout_sec`.
	EnvironmentBuildTimeout ErrorType = "environment_build_timeout"
	// EnvironmentImagePullFailed: the image of the task, or the base image of its Dockerfile, could
	// not be pulled, or not within `build_timeout_sec`.
	EnvironmentImagePullFailed ErrorType = "environment_image_pull_failed"
	// EnvironmentStartFailed: the environment did not start, or its healthcheck failed.
	EnvironmentStartFailed ErrorType = "environment_start_failed"
	// EnvironmentResourceAllocationFailed: the provider could not give the environment the CPUs,
	// memory or storage that it asks for.
	EnvironmentResourceAllocationFailed ErrorType = "environment_resource_allocation_failed"
	// AgentInstallFailed: the agent's install script failed.
	AgentInstallFailed ErrorType = "agent_install_failed"
	// AgentInstallTimeout: the agent's install script took longer than its timeout.
	AgentInstallTimeout ErrorType = "agent_install_timeout"
	// AgentExecutionFailed: the agent's execute script ended with a non-zero exit code, or its
	// environment ended because it exceeded the limit of memory or storage, or it left an
	// environment in which the tests cannot be started, or so many processes that those of the
	// tests cannot.
	AgentExecutionFailed ErrorType = "agent_execution_failed"
	// AgentExecutionTimeout: the agent's execute script took longer than its timeout.
	AgentExecutionTimeout ErrorType = "agent_execution_timeout"
	// ModelFailed: the agent's execute script failed after its model's provider had answered with
	// an error, or waited until its timeout for the provider's rate limit to end, or ten answers of
	// the model in a row broke off or were empty.
	ModelFailed ErrorType = "model_failed"
	// ModelEmptyResponse: ten answers of the model in a row were empty, so that the agent got no
	// more; five for the preset shell.
	ModelEmptyResponse ErrorType = "model_empty_response"
	// ModelUnreachable: the agent's execute script failed after its model's provider had not
	// answered.
	ModelUnreachable ErrorType = "model_unreachable"
	// GatewayFailed: Rollout could not give the agent access to its model, or could not keep what
	// the model answered.
	GatewayFailed ErrorType = "gateway_failed"
	// ReplayMissed: nothing that was recorded fits a request of the agent (models.*.replay).
	ReplayMissed ErrorType = "replay_missed"
	// VerifierFailed: the verifier ended with a non-zero exit code.
	VerifierFailed ErrorType = "verifier_failed"
	// VerifierTimeout: the verifier took longer than its timeout.
	VerifierTimeout ErrorType = "verifier_timeout"
	// VerifierRewardMissing: the verifier ended without writing a reward.
	VerifierRewardMissing ErrorType = "verifier_reward_missing"
	// VerifierRewardInvalid: the verifier wrote a reward that is not one finite number.
	VerifierRewardInvalid ErrorType = "verifier_reward_invalid"
	// JudgeFailed: a judge could not run, ended with an error, or used up its budget before it gave
	// a verdict.
	JudgeFailed ErrorType = "judge_failed"
	// JudgeTimeout: a judge took longer than its `timeout_sec`.
	JudgeTimeout ErrorType = "judge_timeout"
	// JudgeVerdictMissing: a judge ended without giving a verdict.
	JudgeVerdictMissing ErrorType = "judge_verdict_missing"
	// JudgeVerdictInvalid: the verdict of a judge does not fit its schema, or gives no score from 0
	// to 1.
	JudgeVerdictInvalid ErrorType = "judge_verdict_invalid"
	// EnvironmentTeardownFailed: the environment could not be destroyed. The trial keeps its
	// reward.
	EnvironmentTeardownFailed ErrorType = "environment_teardown_failed"
	// InternalError: Rollout or its machine failed.
	InternalError ErrorType = "internal_error"
	// EnvironmentLost: the environment vanished or stopped answering during the trial, for example
	// because the daemon was restarted.
	EnvironmentLost ErrorType = "environment_lost"
	// Cancelled: the job was cancelled during the trial.
	Cancelled ErrorType = "cancelled"
)

// ErrorTypes lists all error types, in the order of the phases that produce them.
var ErrorTypes = []ErrorType{
	TaskInvalid, TaskNotFound,
	EnvironmentBuildFailed, EnvironmentBuildTimeout, EnvironmentImagePullFailed, EnvironmentStartFailed, EnvironmentResourceAllocationFailed,
	AgentInstallFailed, AgentInstallTimeout, AgentExecutionFailed, AgentExecutionTimeout,
	ModelFailed, ModelEmptyResponse, ModelUnreachable, GatewayFailed, ReplayMissed,
	VerifierFailed, VerifierTimeout, VerifierRewardMissing, VerifierRewardInvalid,
	JudgeFailed, JudgeTimeout, JudgeVerdictMissing, JudgeVerdictInvalid,
	EnvironmentTeardownFailed, InternalError, EnvironmentLost, Cancelled,
}

// Fault classifies who caused an error.
type Fault string

// The faults. An agent that could not try (FaultInstall) differs from one that tried and failed
// (FaultAgent).
const (
	FaultAgent          Fault = "agent"          // the agent ran, and failed or took too long: it lost the task
	FaultInstall        Fault = "install"        // the agent could not be installed
	FaultVerifier       Fault = "verifier"       // the verifier gave no verdict
	FaultJudge          Fault = "judge"          // a judge gave no verdict
	FaultTask           Fault = "task"           // the task's files are wrong or missing
	FaultInfrastructure Fault = "infrastructure" // where the trial ran failed, or Rollout did, or the job was cancelled
	FaultUnknown        Fault = "unknown"        // this version does not know the type of error
)

// Fault returns who caused the error.
func (t ErrorType) Fault() Fault {
	for _, f := range []struct {
		prefix string
		fault  Fault
	}{
		{"agent_execution_", FaultAgent}, {"model_failed", FaultAgent}, {"model_empty_", FaultAgent}, {"agent_install_", FaultInstall}, {"verifier_", FaultVerifier}, {"judge_", FaultJudge}, {"task_", FaultTask},
		{"environment_", FaultInfrastructure}, {string(InternalError), FaultInfrastructure}, {string(Cancelled), FaultInfrastructure},
		{string(ModelUnreachable), FaultInfrastructure}, {string(GatewayFailed), FaultInfrastructure}, {string(ReplayMissed), FaultInfrastructure},
	} {
		if strings.HasPrefix(string(t), f.prefix) {
			return f.fault
		}
	}
	return FaultUnknown
}

// Infrastructure reports whether the error says nothing about the agent or the task: the
// infrastructure or Rollout failed, or the job was cancelled.
func (t ErrorType) Infrastructure() bool { return t.Fault() == FaultInfrastructure }

// Loses reports whether a trial with this error and without a reward counts as 0 when jobs are
// compared. It does if the agent, the verifier or a judge ended it, so that a change which makes
// them crash makes the result worse: an agent may be able to make a judge fail. Other errors say
// nothing about the agent.
func (f Fault) Loses() bool {
	return f == FaultAgent || f == FaultInstall || f == FaultVerifier || f == FaultJudge
}

// Error is a failure of a trial. Message is written for users and names the remedy.
type Error struct {
	Type    ErrorType `json:"type"`
	Message string    `json:"message"`
	// Unreachable: the provider (its engine, say) did not answer any more when the trial ended,
	// which ends everything that runs there.
	Unreachable bool `json:"unreachable,omitempty"`
}

// Costs splits a trial's cost, in US dollars. A part that was not reported is null.
type Costs struct {
	Environment USD `json:"environment"`
	Model       USD `json:"model"`
	Judges      USD `json:"judges"`
}

// Total returns the sum of the parts that were reported.
func (c Costs) Total() USD { return c.Environment.Plus(c.Model).Plus(c.Judges) }

// Plus adds part by part.
func (c Costs) Plus(d Costs) Costs {
	return Costs{Environment: c.Environment.Plus(d.Environment), Model: c.Model.Plus(d.Model), Judges: c.Judges.Plus(d.Judges)}
}

// Without subtracts part by part.
func (c Costs) Without(d Costs) Costs {
	return Costs{Environment: c.Environment.without(d.Environment), Model: c.Model.without(d.Model), Judges: c.Judges.without(d.Judges)}
}

// Durations are in seconds; null if the phase never began.
type Durations struct {
	TotalSec            float64  `json:"total_sec"`
	EnvironmentSetupSec *float64 `json:"environment_setup_sec"`
	// ImageSec is the part of EnvironmentSetupSec in which the trial waited for its image to be
	// built or pulled.
	ImageSec          *float64 `json:"image_sec,omitempty"`
	AgentSetupSec     *float64 `json:"agent_setup_sec"`
	AgentExecutionSec *float64 `json:"agent_execution_sec"`
	VerifierSec       *float64 `json:"verifier_sec"`
	JudgesSec         *float64 `json:"judges_sec,omitempty"`
}

// Timestamps are in UTC; null if the phase never began.
type Timestamps struct {
	StartedAt                 time.Time  `json:"started_at"`
	EnvironmentSetupStartedAt *time.Time `json:"environment_setup_started_at"`
	EnvironmentSetupEndedAt   *time.Time `json:"environment_setup_ended_at"`
	AgentSetupStartedAt       *time.Time `json:"agent_setup_started_at"`
	AgentSetupEndedAt         *time.Time `json:"agent_setup_ended_at"`
	AgentExecutionStartedAt   *time.Time `json:"agent_execution_started_at"`
	AgentExecutionEndedAt     *time.Time `json:"agent_execution_ended_at"`
	VerifierStartedAt         *time.Time `json:"verifier_started_at"`
	VerifierEndedAt           *time.Time `json:"verifier_ended_at"`
	JudgesStartedAt           *time.Time `json:"judges_started_at,omitempty"`
	JudgesEndedAt             *time.Time `json:"judges_ended_at,omitempty"`
	EndedAt                   time.Time  `json:"ended_at"`
}

// Retry is an infrastructure failure after which an operation was tried again.
type Retry struct {
	Operation string    `json:"operation"` // build, pull, create, exec, copy, look, network, keep, stop, destroy, trial
	Attempt   int       `json:"attempt"`   // the attempt that failed, from 1
	Message   string    `json:"message"`
	At        time.Time `json:"at"`
}

// Environment describes where a trial ran.
type Environment struct {
	Provider string `json:"provider"`
	ID       string `json:"id,omitempty"`
	Image    string `json:"image,omitempty"`
	// ImageID identifies the image's content, if the provider can do that: the same reference may
	// be another image later.
	ImageID string `json:"image_id,omitempty"`
	// Preserved: the environment was stopped but kept for inspection (preserve_env).
	Preserved bool `json:"preserved,omitempty"`
	// Outcome is set if the files were kept as the agent left them (environment.keep). Of a task
	// with steps, it is that of the last step that ran.
	Outcome *KeptOutcome `json:"outcome,omitempty"`
	// Unenforced names the limits that were asked for and that the provider could not apply: cpus,
	// memory, storage, pids.
	Unenforced []string `json:"unenforced_limits,omitempty"`
	// Base is set if the environment did not run on the image that was asked for.
	Base *Base `json:"base,omitempty"`
	// AgentLayer is set if the environment began with an installed agent (agents[].cache_install).
	AgentLayer *AgentLayer `json:"agent_layer,omitempty"`
	// Network is set unless all phases had the provider's ordinary network.
	Network *Network `json:"network,omitempty"`
	// Verifier is set if the tests ran in another environment than the agent.
	Verifier *VerifierEnvironment `json:"verifier,omitempty"`
}

// VerifierEnvironment describes the environment of the tests. It was removed when they had ended.
type VerifierEnvironment struct {
	ID         string   `json:"id,omitempty"`
	Image      string   `json:"image,omitempty"`
	ImageID    string   `json:"image_id,omitempty"`          // as Environment.ImageID
	Unenforced []string `json:"unenforced_limits,omitempty"` // as Environment.Unenforced
	Base       *Base    `json:"base,omitempty"`              // as Environment.Base
}

// KeptOutcome names the files of an environment that were kept before the tests ran.
type KeptOutcome struct {
	ID    string `json:"id"`    // as a provider lists it among its environments
	Bytes int64  `json:"bytes"` // that it takes at most besides the image
}

// Network describes what the phases of a trial could reach: each is public, none or allowlist.
type Network struct {
	Install  string `json:"install"` // the agent's install script
	Agent    string `json:"agent"`
	Verifier string `json:"verifier"`
	// AllowedHosts are the hosts that phases with an allowlist could reach, by phase: install,
	// agent, verifier.
	AllowedHosts map[string][]string `json:"allowed_hosts,omitempty"`
}

// AgentLayer is an image with an installed agent, for all trials of that agent on one image.
type AgentLayer struct {
	Image string `json:"image"` // from which the environment was created; Environment.Image is the one that the script began with
	// Cached: another trial had run the script, so this one has no agent setup. False for the trial
	// that ran it.
	Cached bool `json:"cached"`
	// From tells people which trial ran the script; empty if it was this one.
	From string `json:"from,omitempty"`
}

// Base describes what an environment ran on instead of the requested image. Each field is one line
// for users, and none is empty.
type Base struct {
	Requested string `json:"requested"` // the image, as the task names it
	Actual    string `json:"actual"`    // what stood in for it, in words that fit after "runs on"
	Reason    string `json:"reason"`
	// Asked: the job asked for it to be so.
	Asked bool `json:"asked,omitempty"`
}

// Rename is a file whose name inside the environment could not be kept on disk.
type Rename struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Omission is a file or a part of a stream that was not kept, and why.
type Omission struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// Artifact is a file or directory that was kept because the task asks for it.
type Artifact struct {
	Source string `json:"source"` // in the environment
	Path   string `json:"path"`   // below the trial's directory
	Files  int    `json:"files"`  // and directories
	Bytes  int64  `json:"bytes"`
	// Executable lists the files that could be executed in the environment, below Path; "." is Path
	// itself.
	Executable []string `json:"executable,omitempty"`
	// Links is the file, below the trial's directory, that lists the links that it has in the
	// environment. Here it has none.
	Links string `json:"links,omitempty"`
	// Entries is the file, below the trial's directory, that lists the owners, modes, times and
	// names that its files have in the environment. Artifacts of earlier versions of Rollout have
	// none.
	Entries string `json:"entries,omitempty"`
	// Incomplete: something of it, other than links, is missing, or its name in the environment is.
	Incomplete bool `json:"incomplete,omitempty"`
}

// Trial is the outcome of a trial: <trial>/result.json. The fields up to Timestamps are the
// specification's; the others are this project's.
type Trial struct {
	Key
	TaskGitCommitID *string  `json:"task_git_commit_id"`
	Reward          *float64 `json:"reward"` // no unit; null without one
	Cost            USD      `json:"cost"`   // Costs.Total(); null where nobody has reported one
	// CostAtLeast: Cost is a lower bound; see Usage.
	CostAtLeast bool       `json:"cost_at_least,omitempty"`
	Error       *Error     `json:"error"`
	Durations   Durations  `json:"durations"`
	Timestamps  Timestamps `json:"timestamps"`

	TaskDigest string `json:"task_digest,omitempty"` // PlannedTask.Digest
	// AgentDigest and ConfigDigest ("sha256:…") identify the agent and the configuration; see
	// experiment.Digests.
	AgentDigest  string `json:"agent_digest,omitempty"`
	ConfigDigest string `json:"config_digest,omitempty"`
	// Reused is set if the trial was not run by this job: its result and its files are another
	// job's.
	Reused *Reused `json:"reused,omitempty"`
	// Reverified is set if this job ran only the tests or only judges, on what an earlier trial had
	// kept.
	Reverified *Reverified `json:"reverified,omitempty"`
	// Confirmation: this is an attempt beyond the planned ones, made because the task looked broken
	// or fixed (gate.confirm). Its Attempt follows the planned ones. It is in no count, rate or
	// metric, but its cost is part of the total. See Summarize and Compare.
	Confirmation bool `json:"confirmation,omitempty"`

	// Trainable: what the agent said may be used for training (agents.*.trainable).
	Trainable bool `json:"trainable,omitempty"`

	// Usage is what the agent used of its model, as the gateway counted it; null without a gateway.
	Usage *Usage `json:"usage,omitempty"`
	// StopCondition is the budget that ended the agent's access to its model, or "context_length";
	// "" if nothing did. The agent's exit code does not count then.
	StopCondition string `json:"stop_condition,omitempty"`
	// IsTruncated: the agent could not go on as it wanted: because of StopCondition, or because the
	// model's last answer was cut off.
	IsTruncated bool `json:"is_truncated,omitempty"`

	Costs       Costs        `json:"costs"`
	Environment *Environment `json:"environment,omitempty"`
	Retries     []Retry      `json:"retries,omitempty"`
	Omitted     []Omission   `json:"omitted,omitempty"`
	Renamed     []Rename     `json:"renamed,omitempty"`
	Warnings    []string     `json:"warnings,omitempty"`

	// VerifierExitCode is the exit code of tests/test.sh; null if it did not run to its end.
	VerifierExitCode *int `json:"verifier_exit_code,omitempty"`

	TaskFormat string `json:"task_format,omitempty"` // PlannedTask.Format
	// Rewards are the numbers in the verifier's reward.json, by name; at most 100, all finite.
	// Reward is the one named "reward", otherwise the only one, otherwise their mean, unless a
	// reward.txt counts instead. Names are hostile.
	Rewards   map[string]float64 `json:"rewards,omitempty"`
	Artifacts []Artifact         `json:"artifacts,omitempty"` // in the task's order

	// Steps are the steps of a task with steps that began, in the task's order. Reward, Rewards and
	// Usage combine theirs; Error is that of the first step with one.
	Steps []StepRun `json:"steps,omitempty"`

	// Agents are the trial's agent and its judges, in this order; empty in a trial without judges.
	Agents []AgentRun `json:"agents,omitempty"`
	// TestsReward is the reward of the tests in a trial with judges. Reward is then the value of
	// the job's or the task's expression, or the same; it is null if a judge failed.
	TestsReward *float64 `json:"tests_reward,omitempty"`
	// Scores has the score of each judge, from 0 to 1; null if the judge did not run or gave no
	// verdict. Those that are not null are in Rewards, too, and so are the criteria, as
	// judge.criterion.
	Scores map[string]*float64 `json:"scores,omitempty"`
}

// Reused names the job that ran a trial whose result was reused. The trial's cost, times and
// durations are those of that run.
type Reused struct {
	Job       string    `json:"job_name"`   // that ran it
	From      string    `json:"from"`       // the directory with the result, as it was given
	StartedAt time.Time `json:"started_at"` // of the trial
	// Commit is that of the job if it is the baseline, and URL the address of its run, where the
	// logs are.
	Commit string `json:"commit,omitempty"`
	URL    string `json:"url,omitempty"`
}

// Reverified names the job that ran the agent of a trial whose tests or judges were run again. The
// trial's agent digest, its durations of the agent and a part of its cost are those of that run.
type Reverified struct {
	Job         string    `json:"job_name"`              // that ran it
	From        string    `json:"from"`                  // its directory, as it was given
	StartedAt   time.Time `json:"started_at"`            // of the earlier trial
	Environment string    `json:"environment"`           // that was kept, and was copied; of the last step of a task with steps. "": see Artifacts
	Outcome     bool      `json:"outcome,omitempty"`     // it is as the agent left it; otherwise, as the earlier tests left it
	Artifacts   bool      `json:"artifacts,omitempty"`   // the tests ran in a new environment with the earlier trial's artifacts
	OnlyJudges  bool      `json:"only_judges,omitempty"` // the tests did not run again either: AgentCosts are all costs then
	TaskDigest  string    `json:"task_digest"`           // then
	Reward      *float64  `json:"reward"`                // then
	AgentCosts  Costs     `json:"agent_costs"`           // the part of the trial's costs that this job did not spend
}

// Spent returns the costs that this job paid for the result, in US dollars: none if it was reused,
// and not those of an agent that an earlier job ran.
func (t Trial) Spent() Costs {
	switch {
	case t.Reused != nil:
		return Costs{}
	case t.Reverified != nil:
		return t.Costs.Without(t.Reverified.AgentCosts)
	}
	return t.Costs
}

// spent returns the sum of Spent of a trial that was not reused.
func (t Trial) spent() USD {
	if t.Reverified != nil {
		return t.Spent().Total()
	}
	return t.Cost
}

// Completed reports whether the verifier ran and produced a reward.
func (t Trial) Completed() bool { return t.Reward != nil }

// Failed reports whether an error kept the trial from a reward. A trial without reward and without
// error (verifier.disable) is neither completed nor failed. A teardown error alone is not a
// failure.
func (t Trial) Failed() bool {
	return t.Reward == nil && t.Error != nil && t.Error.Type != EnvironmentTeardownFailed
}

// EndedUnreachable reports whether the trial ended with its provider (Error.Unreachable).
func (t Trial) EndedUnreachable() bool { return t.Error != nil && t.Error.Unreachable }

// Passed reports whether the reward is exactly 1. Source: specification, "pass_rate".
func (t Trial) Passed() bool { return t.Reward != nil && *t.Reward == 1 }

// Stamp returns t as it is written in result files: in UTC, truncated to the millisecond.
func Stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
