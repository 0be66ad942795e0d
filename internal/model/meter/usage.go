package meter

import "cmp"

// Usage counts tokens. nil means unknown, not 0.
type Usage struct {
	Input      *int64 `json:"input_tokens"`       // all input, including tokens read from or written to a cache
	Cached     *int64 `json:"cached_tokens"`      // the part of Input that was read from a cache
	CacheWrite *int64 `json:"cache_write_tokens"` // the part of Input that was written to a cache
	Output     *int64 `json:"output_tokens"`      // all output, with reasoning
	Reasoning  *int64 `json:"reasoning_tokens"`   // the part of Output that is reasoning
	// CacheWriteHour is the part of CacheWrite that is kept for an hour, which costs more.
	CacheWriteHour *int64 `json:"cache_write_1h_tokens,omitempty"`
	// Searches counts the searches of the web that the provider made, each of which has a price.
	Searches *int64 `json:"web_searches,omitempty"`
	// Apart: the provider bills something that is in no count here, such as a tool that it ran or
	// the tokens of another model.
	Apart bool `json:"billed_apart,omitempty"`
	// Estimated: the provider has not stated Input, Output or both, or not the last state of them.
	// They are estimated from bytes.
	Estimated bool `json:"estimated,omitempty"`
	// Contradiction describes how the provider's numbers contradict each other; "" if they do not.
	Contradiction string `json:"contradiction,omitempty"`
	// CostUSD is the price that the provider states.
	CostUSD *float64 `json:"cost_usd,omitempty"`
}

// Known reports whether Input or Output is known.
func (u Usage) Known() bool { return u.Input != nil || u.Output != nil }

// Total returns input and output, or 0 if they are unknown.
func (u Usage) Total() int64 { return Value(u.Input) + Value(u.Output) }

// Plus returns the sum. If a count is unknown on one side, the sum is the other one, and so a lower
// bound.
func (u Usage) Plus(v Usage) Usage {
	return Usage{
		Input: Sum(u.Input, v.Input), Cached: Sum(u.Cached, v.Cached), CacheWrite: Sum(u.CacheWrite, v.CacheWrite),
		Output: Sum(u.Output, v.Output), Reasoning: Sum(u.Reasoning, v.Reasoning), Searches: Sum(u.Searches, v.Searches),
		CacheWriteHour: Sum(u.CacheWriteHour, v.CacheWriteHour), CostUSD: Sum(u.CostUSD, v.CostUSD),
		Apart: u.Apart || v.Apart, Estimated: u.Estimated || v.Estimated, Contradiction: cmp.Or(u.Contradiction, v.Contradiction),
	}
}

// Sum returns the sum of two numbers of which either may be unknown; nil if both are.
func Sum[T int64 | float64](a, b *T) *T {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return new(*a + *b)
}

// Value returns a number, or 0 if it is unknown.
func Value[T int64 | float64](p *T) T {
	if p == nil {
		return 0
	}
	return *p
}
