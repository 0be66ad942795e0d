package trajectory

import (
	"encoding/json"
	"time"
)

// Version is the version of the format. Source: the models of Harbor 0.25,
// harbor/models/trajectories.
const Version = "ATIF-v1.8"

// Trajectory is the record of an agent's run, step by step.
type Trajectory struct {
	SchemaVersion string        `json:"schema_version"`
	SessionID     string        `json:"session_id,omitempty"`
	ID            string        `json:"trajectory_id,omitempty"`
	Agent         Agent         `json:"agent"`
	Steps         []Step        `json:"steps"`
	Notes         string        `json:"notes,omitempty"`
	Final         *FinalMetrics `json:"final_metrics,omitempty"`
	Extra         Extras        `json:"extra,omitempty"`
	Subagents     []Trajectory  `json:"subagent_trajectories,omitempty"`
}

// Agent describes the agent.
type Agent struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Model   string `json:"model_name,omitempty"`
	Tools   Tools  `json:"tool_definitions,omitempty"`
}

// Sources of steps.
const (
	fromSystem = "system"
	fromUser   = "user"
	fromAgent  = "agent"
)

// Step is one step of a trajectory. Only steps of the agent have Model, Reasoning, Calls and
// Metrics.
type Step struct {
	ID          int          `json:"step_id"`
	Time        *time.Time   `json:"timestamp,omitempty"`
	Source      string       `json:"source"`
	Message     string       `json:"message"`
	Model       string       `json:"model_name,omitempty"`
	Reasoning   string       `json:"reasoning_content,omitempty"`
	Calls       []ToolCall   `json:"tool_calls,omitempty"`
	Observation *Observation `json:"observation,omitempty"`
	Metrics     *Metrics     `json:"metrics,omitempty"`
	LLMCalls    *int         `json:"llm_call_count,omitempty"`
	Extra       Extras       `json:"extra,omitempty"`
}

// ToolCall is a call of a tool.
type ToolCall struct {
	ID        string          `json:"tool_call_id"`
	Name      string          `json:"function_name"`
	Arguments json.RawMessage `json:"arguments"` // an object
}

// Observation has the results of a step's calls.
type Observation struct {
	Results []Result `json:"results"`
}

// Result is the result of a call.
type Result struct {
	Call      string        `json:"source_call_id,omitempty"`
	Content   string        `json:"content"`
	Subagents []SubagentRef `json:"subagent_trajectory_ref,omitempty"`
	Extra     Extras        `json:"extra,omitempty"`
}

// SubagentRef names the trajectory of a sub-agent.
type SubagentRef struct {
	ID string `json:"trajectory_id"`
}

// Metrics are the metrics of one call of the model. Prompt includes tokens that were read from or
// written to a cache.
type Metrics struct {
	Prompt     *int64   `json:"prompt_tokens,omitempty"`
	Completion *int64   `json:"completion_tokens,omitempty"`
	Cached     *int64   `json:"cached_tokens,omitempty"`
	Cost       *float64 `json:"cost_usd,omitempty"`
	// The tokens of the call, if they were recorded.
	PromptIDs     []int32   `json:"prompt_token_ids,omitempty"`
	CompletionIDs []int32   `json:"completion_token_ids,omitempty"`
	Logprobs      []float64 `json:"logprobs,omitempty"`
	Extra         Extras    `json:"extra,omitempty"`
}

// FinalMetrics are sums. The cost includes that of sub-agents.
type FinalMetrics struct {
	Prompt     *int64   `json:"total_prompt_tokens,omitempty"`
	Completion *int64   `json:"total_completion_tokens,omitempty"`
	Cached     *int64   `json:"total_cached_tokens,omitempty"`
	Cost       *float64 `json:"total_cost_usd,omitempty"`
	Steps      int      `json:"total_steps"`
	Extra      Extras   `json:"extra,omitempty"`
}
