package result

import (
	"cmp"
	"slices"
)

// ReportedByAgent is the Usage.ReportedBy of a usage that was not measured, but read from a
// trajectory that the agent left.
const ReportedByAgent = "agent"

// Usage counts the calls and tokens that a trial's agent used of its model. Counts of tokens are
// null if they are not known, and a lower bound if they are not known for some calls. The cost is
// in Trial.Costs.
type Usage struct {
	// ReportedBy is "" if the gateway counted the usage, else ReportedByAgent. In the latter case
	// Calls is Turns, and there are no times.
	ReportedBy string `json:"reported_by,omitempty"`

	Turns   int64 `json:"turns"`         // answers that came to their end
	Calls   int64 `json:"calls"`         // requests that were sent to the provider
	Failed  int64 `json:"failed_calls"`  // those of them without an answer that came to its end
	Refused int64 `json:"refused_calls"` // requests that were refused because of StopCondition

	// Unpriced counts the calls whose cost has no price, or not in full. The cost is a lower bound
	// if there are any.
	Unpriced int64 `json:"unpriced_calls,omitempty"`
	// Estimated counts the calls whose tokens are estimated, because the provider did not state
	// them, or not to the end. Tokens and cost are lower bounds if there are any.
	Estimated int64 `json:"estimated_calls,omitempty"`

	InputTokens      *int64 `json:"input_tokens"`       // all input
	CachedTokens     *int64 `json:"cached_tokens"`      // the part of the input that was read from a cache
	CacheWriteTokens *int64 `json:"cache_write_tokens"` // the part of the input that was written to a cache
	OutputTokens     *int64 `json:"output_tokens"`      // all output
	ReasoningTokens  *int64 `json:"reasoning_tokens"`   // the part of the output that is reasoning

	ModelSec     float64  `json:"model_sec"`                 // at least one call was with the provider
	FirstByteSec float64  `json:"time_to_first_token_sec"`   // mean of the calls, until the first byte of an answer
	WaitingSec   float64  `json:"waiting_sec"`               // of all calls, for rate limits and free places
	Requested    string   `json:"requested_model"`           // the name that was sent to the provider
	Answered     []string `json:"answered_models,omitempty"` // the names that it stated, in the order of their first answers
}

// Plus returns the usage of both. A count of tokens is null if it is null in both, and else a lower
// bound. Either may be nil.
func (u *Usage) Plus(v *Usage) *Usage {
	switch {
	case u == nil:
		return v
	case v == nil:
		return u
	}
	s := *u
	s.Turns, s.Calls, s.Failed, s.Refused = plus(u.Turns, v.Turns), plus(u.Calls, v.Calls), plus(u.Failed, v.Failed), plus(u.Refused, v.Refused)
	s.Unpriced, s.Estimated = plus(u.Unpriced, v.Unpriced), plus(u.Estimated, v.Estimated)
	more := v.tokens()
	for i, to := range []**int64{&s.InputTokens, &s.CachedTokens, &s.CacheWriteTokens, &s.OutputTokens, &s.ReasoningTokens} {
		var sum tokenTally
		sum.add(*to)
		sum.add(more[i])
		if sum.known {
			*to = new(sum.sum)
		}
	}
	s.ModelSec, s.WaitingSec = finite(u.ModelSec+v.ModelSec), finite(u.WaitingSec+v.WaitingSec)
	if s.Calls > 0 {
		s.FirstByteSec = finite((u.FirstByteSec*float64(u.Calls) + v.FirstByteSec*float64(v.Calls)) / float64(s.Calls))
	}
	s.Requested = cmp.Or(u.Requested, v.Requested)
	s.Answered = slices.Clone(u.Answered)
	for _, name := range v.Answered {
		if !slices.Contains(s.Answered, name) {
			s.Answered = append(s.Answered, name)
		}
	}
	return &s
}
