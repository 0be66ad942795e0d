package result

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Output describes a finished trial for programs that learn from rollouts or evaluate them: a line
// of outputs.jsonl, and of what "rollout export --format outputs" writes. The first fields have the
// names and units of the RolloutOutput that such programs know, with times in milliseconds. It only
// repeats what results state.
type Output struct {
	// ExampleID is the same number for all attempts of all agents at one task, in every job. See
	// ExampleID.
	ExampleID int64  `json:"example_id"`
	Task      string `json:"task"`
	Dataset   string `json:"dataset"`
	Agent     string `json:"agent"`
	Attempt   int    `json:"attempt"`
	// Prompt is the task's instruction as one message of a user, at most MaxPrompt bytes of it;
	// null if unknown.
	Prompt []Message `json:"prompt"`
	// Completion is the agent's conversation after its first prompt, in the shape of the Chat
	// Completions API; null if none was recorded or if it was omitted (ConversationOmitted).
	Completion json.RawMessage `json:"completion"`
	// Trajectory has a trajectory.Turn for each answer of a model, with the names of the
	// TrajectoryStep that such programs know.
	Trajectory json.RawMessage `json:"trajectory,omitempty"`
	ToolDefs   json.RawMessage `json:"tool_defs,omitempty"` // the tools that the agent offered, as OpenAI's functions
	Usage      *Usage          `json:"usage,omitempty"`
	// ConversationOmitted is the reason why a recorded conversation is not here.
	ConversationOmitted string `json:"conversation_omitted,omitempty"`
	// TokensOmitted is the number of turns in Trajectory whose tokens were recorded and are not
	// here, because the line would be too long.
	TokensOmitted int `json:"tokens_omitted,omitempty"`

	Reward *float64     `json:"reward"` // no unit; null without one
	Timing OutputTiming `json:"timing"`
	// IsCompleted: the trial has a reward.
	IsCompleted bool `json:"is_completed"`
	// IsTruncated: the agent was stopped by its timeout, or Trial.IsTruncated.
	IsTruncated bool `json:"is_truncated"`
	// Metrics are the verifier's numbers by name; a single reward has the name "reward". Names may
	// be hostile.
	Metrics map[string]float64 `json:"metrics"`
	Error   *string            `json:"error"` // type and message; null without one
	// StopCondition is why the trial ended: Trial.StopCondition, "completed" (it ran to its end and
	// has a reward), "not_verified" (it ran to its end and was not verified), or the type of its
	// error.
	StopCondition string `json:"stop_condition"`

	// Advantage and AdvantageNormalized are only in exports, and null if an attempt of the group
	// has no reward. See Advantage.
	Advantage           *float64 `json:"advantage,omitempty"`
	AdvantageNormalized *float64 `json:"advantage_normalized,omitempty"`

	Cost   USD     `json:"cost"` // of the run that it was taken from, if it is Reused
	Reused *Reused `json:"reused,omitempty"`
	// Confirmation: Trial.Confirmation.
	Confirmation bool          `json:"confirmation,omitempty"`
	Digests      OutputDigests `json:"digests"`
	Commit       *string       `json:"commit"` // of the job file; null outside git
	Dir          string        `json:"dir"`    // of the trial, below the job's directory
}

// Message is a message of a conversation.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// OutputTiming has the start of a trial and its durations, in milliseconds; 0 for what never began.
type OutputTiming struct {
	StartTime    float64 `json:"start_time"`    // seconds since 1970, UTC
	SetupMS      float64 `json:"setup_ms"`      // environment and installation of the agent
	GenerationMS float64 `json:"generation_ms"` // the agent's execution
	ScoringMS    float64 `json:"scoring_ms"`    // the verifier
	TotalMS      float64 `json:"total_ms"`      // the whole trial, more than the sum of the parts
}

// OutputDigests identify what was run ("sha256:…"); "" if unknown.
type OutputDigests struct {
	Task   string `json:"task"`
	Agent  string `json:"agent"`
	Config string `json:"config"`
	Plan   string `json:"plan"`
}

// MaxPrompt bounds the instruction in an Output, in bytes. A longer one is cut and marked.
const MaxPrompt = 64 << 10

// ExampleID returns a number for a task that depends only on the names of dataset and task. It is
// positive and below 2⁵³, so that every reader of JSON represents it exactly. The chance that two
// of a million tasks have the same one is 1 in 18,000.
func ExampleID(dataset, task string) int64 {
	sum := sha256.Sum256([]byte(dataset + "\x00" + task))
	return int64(binary.BigEndian.Uint64(sum[:]) >> 11)
}

// PromptOf returns an instruction as a list with one message of a user.
func PromptOf(instruction string) []Message {
	const mark = "\n[cut]"
	text := strings.ToValidUTF8(instruction, "\uFFFD")
	if len(text) > MaxPrompt {
		text = text[:MaxPrompt-len(mark)]
		for r, n := utf8.DecodeLastRuneInString(text); r == utf8.RuneError && n == 1; r, n = utf8.DecodeLastRuneInString(text) {
			text = text[:len(text)-1]
		}
		text += mark
	}
	return []Message{{Role: "user", Content: text}}
}

// OutputOf returns the output of a trial. prompt may be nil.
func OutputOf(plan Plan, t Trial, prompt []Message) Output {
	o := Output{
		ExampleID: ExampleID(t.Dataset, t.Task), Task: t.Task, Dataset: t.Dataset, Agent: t.Agent, Attempt: t.Attempt,
		Prompt: prompt, Reward: t.Reward, Timing: timingOf(t), IsCompleted: t.Completed(),
		Metrics: map[string]float64{}, StopCondition: StopCondition(t), Cost: t.Cost, Commit: plan.Commit, Dir: t.Dir(), IsTruncated: t.IsTruncated,
		Digests: OutputDigests{Task: t.TaskDigest, Agent: t.AgentDigest, Config: t.ConfigDigest, Plan: plan.Digest}, Reused: t.Reused, Confirmation: t.Confirmation, Usage: t.Usage,
	}
	if t.Reward != nil {
		o.Metrics["reward"] = *t.Reward
	}
	if len(t.Rewards) > 0 {
		o.Metrics = t.Rewards
	}
	if t.Error != nil {
		o.Error = new(string(t.Error.Type) + ": " + t.Error.Message)
		o.IsTruncated = t.IsTruncated || t.Error.Type == AgentExecutionTimeout
	}
	return o
}

// The values of Output.StopCondition that are not an ErrorType.
const (
	StopCompleted   = "completed"
	StopNotVerified = "not_verified"
)

// StopCondition returns a trial's Output.StopCondition.
func StopCondition(t Trial) string {
	switch {
	case t.Error != nil && t.Error.Type != EnvironmentTeardownFailed:
		return string(t.Error.Type)
	case t.StopCondition != "":
		return t.StopCondition
	case t.Completed():
		return StopCompleted
	}
	return StopNotVerified
}

func timingOf(t Trial) OutputTiming {
	ms := func(parts ...*float64) float64 {
		sum := 0.0
		for _, p := range parts {
			if p != nil {
				sum += *p
			}
		}
		return finite(sum * 1000)
	}
	d := t.Durations
	return OutputTiming{
		StartTime:    float64(t.Timestamps.StartedAt.UnixMilli()) / 1000,
		SetupMS:      ms(d.EnvironmentSetupSec, d.AgentSetupSec),
		GenerationMS: ms(d.AgentExecutionSec),
		ScoringMS:    ms(d.VerifierSec),
		TotalMS:      ms(&d.TotalSec),
	}
}
