package result

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"unicode/utf8"
)

// Output is one finished trial for programs that learn or evaluate from rollouts: a line of outputs.jsonl, and of what
// "rollout export --format outputs" writes. Names and units of the first fields are those of the RolloutOutput that such
// programs know; times are milliseconds there, and not seconds. Nothing in it counts: it says again what results say.
type Output struct {
	// ExampleID is the same number for all attempts of all agents at one task, in every job. See ExampleID.
	ExampleID int64  `json:"example_id"`
	Task      string `json:"task"`
	Dataset   string `json:"dataset"`
	Agent     string `json:"agent"`
	Attempt   int    `json:"attempt"`
	// Prompt is the task's instruction as one message of a user, at most MaxPrompt bytes of it; null if it is not known.
	Prompt []Message `json:"prompt"`
	// Completion is null: what an agent printed is no conversation, and is in the trial's folder.
	Completion []Message    `json:"completion"`
	Reward     *float64     `json:"reward"` // no unit; null without one
	Timing     OutputTiming `json:"timing"`
	// IsCompleted: the trial has a reward.
	IsCompleted bool `json:"is_completed"`
	// IsTruncated: the agent was stopped because its time was over.
	IsTruncated bool `json:"is_truncated"`
	// Metrics are the verifier's numbers by name; a single reward has the name "reward". Names may be hostile.
	Metrics map[string]float64 `json:"metrics"`
	Error   *string            `json:"error"` // its type and message; null without one
	// StopCondition is why the trial ended: "completed" (it ran to its end and has a reward), "not_verified" (it ran to its
	// end, and nobody verified it), or else the type of its error.
	StopCondition string `json:"stop_condition"`

	// Advantage and AdvantageNormalized are in exports only, and null where an attempt of the group has no reward. See Advantage.
	Advantage           *float64 `json:"advantage,omitempty"`
	AdvantageNormalized *float64 `json:"advantage_normalized,omitempty"`

	Cost   USD     `json:"cost"` // of the run that it was taken from, if it is Reused
	Reused *Reused `json:"reused,omitempty"`
	// Confirmation: Trial.Confirmation.
	Confirmation bool          `json:"confirmation,omitempty"`
	Digests      OutputDigests `json:"digests"`
	Commit       *string       `json:"commit"` // that the job file was at; null outside git
	Dir          string        `json:"dir"`    // of the trial, below the job's folder
}

// Message is one of a conversation.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// OutputTiming is when and how long. Durations are milliseconds, 0 for what never began.
type OutputTiming struct {
	StartTime    float64 `json:"start_time"`    // seconds since 1970, UTC
	SetupMS      float64 `json:"setup_ms"`      // environment and installation of the agent
	GenerationMS float64 `json:"generation_ms"` // the agent's execution
	ScoringMS    float64 `json:"scoring_ms"`    // the verifier
	TotalMS      float64 `json:"total_ms"`      // the whole trial, more than the sum of the parts
}

// OutputDigests say what was run ("sha256:…"); "" for what is not known.
type OutputDigests struct {
	Task   string `json:"task"`
	Agent  string `json:"agent"`
	Config string `json:"config"`
	Plan   string `json:"plan"`
}

// MaxPrompt is how much of an instruction stands in an Output, in bytes. What is cut is marked.
const MaxPrompt = 64 << 10

// ExampleID is a number for a task that depends on the names of dataset and task alone. It is positive and below 2⁵³,
// so that every reader of JSON keeps it; two of a million tasks have the same one with a chance of 1 to 18,000.
func ExampleID(dataset, task string) int64 {
	sum := sha256.Sum256([]byte(dataset + "\x00" + task))
	return int64(binary.BigEndian.Uint64(sum[:]) >> 11)
}

// PromptOf is an instruction as messages.
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

// OutputOf is a trial's line. prompt may be nil.
func OutputOf(plan Plan, t Trial, prompt []Message) Output {
	o := Output{
		ExampleID: ExampleID(t.Dataset, t.Task), Task: t.Task, Dataset: t.Dataset, Agent: t.Agent, Attempt: t.Attempt,
		Prompt: prompt, Reward: t.Reward, Timing: timingOf(t), IsCompleted: t.Completed(),
		Metrics: map[string]float64{}, StopCondition: StopCondition(t), Cost: t.Cost, Commit: plan.Commit, Dir: t.Dir(),
		Digests: OutputDigests{Task: t.TaskDigest, Agent: t.AgentDigest, Config: t.ConfigDigest, Plan: plan.Digest}, Reused: t.Reused, Confirmation: t.Confirmation,
	}
	if t.Reward != nil {
		o.Metrics["reward"] = *t.Reward
	}
	if len(t.Rewards) > 0 {
		o.Metrics = t.Rewards
	}
	if t.Error != nil {
		o.Error = new(string(t.Error.Type) + ": " + t.Error.Message)
		o.IsTruncated = t.Error.Type == AgentExecutionTimeout
	}
	return o
}

// The values of Output.StopCondition that are no ErrorType.
const (
	StopCompleted   = "completed"
	StopNotVerified = "not_verified"
)

// StopCondition is Output.StopCondition.
func StopCondition(t Trial) string {
	switch {
	case t.Error != nil && t.Error.Type != EnvironmentTeardownFailed:
		return string(t.Error.Type)
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

// ByEnd orders trials as they ended, which is the order of the lines of outputs.jsonl; those that ended together by key.
func ByEnd(a, b Trial) int {
	return cmp.Or(a.Timestamps.EndedAt.Compare(b.Timestamps.EndedAt), a.Key.Compare(b.Key))
}
