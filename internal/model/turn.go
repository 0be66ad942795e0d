package model

import (
	"time"

	"github.com/org/rollout-action/internal/model/meter"
)

// Turn is one request of the agent for an answer, with its outcome. All texts are hostile.
type Turn struct {
	N int // counts from 1, in the order in which requests came
	// Agent identifies the agent or sub-agent, as the client states it; "" if it does not.
	Agent string
	// Conversation is the conversation of the request; empty if it is not to be recorded.
	Conversation Conversation
	Answer       Answer
	Whole        bool // the answer is complete
	Asked        string
	Began        time.Time
	FirstByte    time.Time // zero if none came
	Ended        time.Time
	Waiting      time.Duration // for rate limits and free places, before the request was sent
	Stripped     []string      // tools that the provider would have run, and files that it would have fetched, which were removed
	Removed      []string      // fields that named other models or accounts, which were removed
	Cost         *float64      // in US dollars; nil if it is not known
	AtLeast      bool          // Cost is a lower bound
	Failure      *Failure      // nil if the call succeeded
	Retry        bool          // the client marks the request as a repetition
	Recorded     time.Time     // when a recorded answer was given; zero if the provider answered
}

// WithoutContents returns the turn without texts of the agent, the model or the provider, except
// names of models.
func (t Turn) WithoutContents() Turn {
	t.Answer.Tokens = nil
	t.Conversation, t.Answer.Message, t.Answer.Failed, t.Stripped, t.Removed, t.Agent = Conversation{}, Message{}, "", nil, nil, ""
	t.Answer.Choices = nil
	if t.Failure != nil {
		t.Failure = &Failure{Kind: t.Failure.Kind, Status: t.Failure.Status}
	}
	return t
}

// Failure is the reason why a call of the model failed.
type Failure struct {
	Kind    FailureKind `json:"kind"`
	Status  int         `json:"status,omitempty"` // of HTTP; 0 if there was no answer
	Message string      `json:"message"`
}

// ByProvider reports whether the provider failed, and not the agent or its request.
func (f *Failure) ByProvider() bool {
	switch f.Kind {
	case FailedProvider, FailedLimit, FailedUnreachable:
		return f.Status == 0 || f.Status >= 500 || f.Status == 429
	}
	return false
}

// FailureKind classifies a failure.
type FailureKind string

// The kinds of failures.
const (
	FailedProvider    FailureKind = "provider"    // the provider answered with an error, or put one into its stream
	FailedLimit       FailureKind = "rate_limit"  // the provider refused for longer than a request can wait
	FailedOverflow    FailureKind = "context"     // the conversation is longer than the model can read
	FailedUnreachable FailureKind = "unreachable" // there was no answer
	FailedCut         FailureKind = "cut"         // the answer ended too early
	FailedEmpty       FailureKind = "empty"       // many answers in a row were empty, the last one without another failure
	FailedRefused     FailureKind = "refused"     // the gateway does not pass such requests on
	FailedGateway     FailureKind = "gateway"     // the turn could not be kept
	FailedMissed      FailureKind = "missed"      // nothing that was recorded fits
)

// Budget limits an agent's use of its model in a trial.
type Budget = meter.Budget

// Stop is the reason why a session refuses further turns: the key of the budget that is used up.
type Stop = meter.Stop

// The stops. StopContext and StopEmpty end no session by themselves; see Report.
const (
	StopTurns        = meter.StopTurns
	StopInput        = meter.StopInput
	StopOutput       = meter.StopOutput
	StopTokens       = meter.StopTokens
	StopCost         = meter.StopCost
	StopJobCost Stop = "job_max_cost_usd"
	StopContext Stop = "context_length"
	StopEmpty   Stop = "empty_responses"
	StopMissed  Stop = "replay_missed"
)
