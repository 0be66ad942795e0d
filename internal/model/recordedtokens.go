package model

import (
	"encoding/json"
	"slices"

	"github.com/tidwall/sjson"
)

// Tokens are the ids of a turn's tokens, as the server of the model states them. Training programs
// need them, because texts do not show how they were divided into tokens. Source: vLLM 0.33 and
// SGLang 0.5.23, with return_token_ids and logprobs in a request of Chat Completions.
type Tokens struct {
	Prompt     []int32   `json:"prompt_ids"`
	Completion []int32   `json:"completion_ids"`
	Logprobs   []float64 `json:"completion_logprobs,omitempty"` // as many as Completion; nil unless the server states one for each
}

// RecordedTokens are the tokens of a turn in a record. The prompt of a turn mostly begins like the
// turn before it, so identical ids are left out.
type RecordedTokens struct {
	// Shared is the number of ids at the beginning of the prompt that equal those of the prompt and
	// the completion of the turn After.
	Shared int `json:"shared,omitempty"`
	After  int `json:"after,omitempty"`
	Tokens
}

// latestTokens holds the tokens of the last recorded turn that has any.
type latestTokens struct {
	turn int // 0: there is none
	Tokens
}

// shorten returns the tokens of a turn without those that it shares with the latest turn.
func (l latestTokens) shorten(t Tokens) *RecordedTokens {
	out := &RecordedTokens{Tokens: t}
	both := slices.Concat(l.Prompt, l.Completion)
	for l.turn != 0 && out.Shared < min(len(both), len(t.Prompt)) && both[out.Shared] == t.Prompt[out.Shared] {
		out.Shared++
	}
	if out.Shared > 0 {
		out.After, out.Prompt = l.turn, slices.Clone(t.Prompt[out.Shared:])
	}
	return out
}

// TokensReader finds the tokens of turns that were recorded one after the other.
type TokensReader struct{ latest latestTokens }

// Read returns the tokens of a turn, including the shared ones that were left out; nil if it has
// none, or if the turn before is not the one it shares them with.
func (r *TokensReader) Read(t RecordedTurn) *Tokens {
	if t.Tokens == nil {
		return nil
	}
	l, whole := r.latest, t.Tokens.Tokens
	r.latest = latestTokens{}
	if n := t.Tokens.Shared; n != 0 {
		both := slices.Concat(l.Prompt, l.Completion)
		if l.turn == 0 || t.Tokens.After != l.turn || n < 0 || n > len(both) {
			return nil
		}
		whole.Prompt = slices.Concat(both[:n], whole.Prompt)
	}
	r.latest = latestTokens{t.Turn, whole}
	return &whole
}

// WithoutTokens returns a line of a record without its tokens.
func WithoutTokens(line []byte) []byte {
	out, err := sjson.DeleteBytes(line, "tokens")
	if err != nil || !json.Valid(out) {
		return line
	}
	return out
}
