package model

import (
	"bytes"
	"encoding/json"
	"math"

	"github.com/tidwall/gjson"
)

// Tokens are the numbers of the tokens of a turn, as the server of the model states them. Programs train on them, because texts do not tell how
// they were divided into tokens. Source: vLLM and SGLang, with return_token_ids and logprobs in a request of Chat Completions.
type Tokens struct {
	Prompt     []int32   `json:"prompt_ids"`
	Completion []int32   `json:"completion_ids"`
	Logprobs   []float64 `json:"completion_logprobs,omitempty"` // as many as Completion; nil if the server states none
}

// maxTokenIDs bounds the tokens of a turn.
const maxTokenIDs = 1 << 20

// asksForTokens returns a request that asks for the numbers of tokens.
func asksForTokens(body []byte) ([]byte, error) {
	var err error
	for _, name := range []string{"return_token_ids", "logprobs"} {
		if !gjson.GetBytes(body, name).Bool() && err == nil {
			body, err = set(body, name, true)
		}
	}
	return body, err
}

// tokenReader collects the numbers of tokens of an answer, and hides them from clients that did not ask for them.
type tokenReader struct {
	Tokens
	broken      bool
	hideIDs     bool
	hideLogprob bool
}

// newTokenReader returns a reader for the answer to what the client itself has asked; nil if the model's tokens are not recorded.
func newTokenReader(m *Model, asked []byte) *tokenReader {
	if m == nil || !m.Tokens {
		return nil
	}
	return &tokenReader{hideIDs: !gjson.GetBytes(asked, "return_token_ids").Bool(), hideLogprob: !gjson.GetBytes(asked, "logprobs").Bool()}
}

// read reads an answer, or an event of one.
func (t *tokenReader) read(root gjson.Result) {
	if t == nil || t.broken {
		return
	}
	ok := addIDs(&t.Prompt, root.Get("prompt_token_ids"), true)
	choice := root.Get("choices.0")
	ok = addIDs(&t.Completion, choice.Get("token_ids"), false) && ok
	choice.Get("logprobs.content").ForEach(func(_, one gjson.Result) bool {
		p := one.Get("logprob")
		ok = ok && p.Type == gjson.Number && !math.IsInf(p.Num, 0) && p.Num <= 0 && len(t.Logprobs) < maxTokenIDs
		if ok {
			t.Logprobs = append(t.Logprobs, p.Num)
		}
		return ok
	})
	t.broken = !ok
}

// addIDs adds a list of numbers, and reports whether they are numbers of tokens. Some servers repeat those of the prompt in each event: only the
// first count.
func addIDs(to *[]int32, list gjson.Result, once bool) bool {
	if !list.IsArray() || once && len(*to) > 0 {
		return list.Type == gjson.Null || list.IsArray()
	}
	ok := true
	list.ForEach(func(_, n gjson.Result) bool {
		ok = n.Type == gjson.Number && n.Num >= 0 && n.Num <= math.MaxInt32 && n.Num == math.Trunc(n.Num) && len(*to) < maxTokenIDs
		if ok {
			*to = append(*to, int32(n.Num))
		}
		return ok
	})
	return ok
}

// tokens returns what was read; nil if it is not whole, or not what a server of models writes.
func (t *tokenReader) tokens() *Tokens {
	if t == nil || t.broken || len(t.Prompt) == 0 || len(t.Completion) == 0 || len(t.Logprobs) > 0 && len(t.Logprobs) != len(t.Completion) {
		return nil
	}
	return &t.Tokens
}

// hide returns an answer, or the data of an event, without what the client did not ask for. All other bytes stay as they are.
func (t *tokenReader) hide(data []byte) []byte {
	if t == nil {
		return data
	}
	out := data
	edit := func(path string, remove bool) {
		if v := gjson.GetBytes(out, path); !v.Exists() || !remove && v.Type == gjson.Null {
			return
		}
		changed, err := deletePath(out, path)
		if !remove {
			changed, err = setRaw(out, path, []byte("null")) // servers write it when nobody asks
		}
		if err == nil {
			out = changed
		}
	}
	choices := int(gjson.GetBytes(data, "choices.#").Int())
	if t.hideIDs {
		edit("prompt_token_ids", true)
	}
	for i := range min(choices, maxBlocks) {
		at := "choices." + string(encoded(i))
		if t.hideIDs {
			edit(at+".token_ids", true)
		}
		if t.hideLogprob {
			edit(at+".logprobs", false)
		}
	}
	return out
}

// hideEvent returns an event without what the client did not ask for.
func (t *tokenReader) hideEvent(e sseEvent) sseEvent {
	if t == nil || len(e.data) == 0 || !gjson.ValidBytes(e.data) {
		return e
	}
	data := t.hide(e.data)
	switch {
	case bytes.Equal(data, e.data):
	case bytes.Count(e.raw, e.data) == 1:
		e.raw = bytes.Replace(e.raw, e.data, data, 1)
	default: // the data is on several lines
		e.raw = append(append([]byte("data: "), bytes.ReplaceAll(data, []byte("\n"), []byte("\ndata: "))...), "\n\n"...)
	}
	return e
}

// RecordedTokens are the tokens of a turn in a record. The prompt of a turn mostly begins like the turn before it, so that the numbers that are
// the same are left out.
type RecordedTokens struct {
	Shared int `json:"shared,omitempty"` // how many numbers are those of the prompt and the completion of the latest turn with tokens
	Tokens
}

// shorten returns the tokens as they are recorded after a turn with others. before may be nil.
func (t *Tokens) shorten(before *Tokens) *RecordedTokens {
	out := &RecordedTokens{Tokens: *t}
	if before == nil {
		return out
	}
	for out.Shared < len(t.Prompt) {
		n := out.Shared
		switch {
		case n < len(before.Prompt) && before.Prompt[n] == t.Prompt[n]:
		case n >= len(before.Prompt) && n-len(before.Prompt) < len(before.Completion) && before.Completion[n-len(before.Prompt)] == t.Prompt[n]:
		default:
			out.Prompt = t.Prompt[n:]
			return out
		}
		out.Shared++
	}
	out.Prompt = []int32{}
	return out
}

// Whole returns the tokens with those that were left out; nil if they do not fit the latest turn before it.
func (r *RecordedTokens) Whole(before *Tokens) *Tokens {
	out := r.Tokens
	if r.Shared == 0 {
		return &out
	}
	if before == nil || r.Shared < 0 || r.Shared > len(before.Prompt)+len(before.Completion) {
		return nil
	}
	out.Prompt = make([]int32, 0, r.Shared+len(r.Prompt))
	out.Prompt = append(out.Prompt, before.Prompt[:min(r.Shared, len(before.Prompt))]...)
	if more := r.Shared - len(before.Prompt); more > 0 {
		out.Prompt = append(out.Prompt, before.Completion[:more]...)
	}
	out.Prompt = append(out.Prompt, r.Prompt...)
	return &out
}

// WithoutTokens returns a line of a record without its tokens.
func WithoutTokens(line []byte) []byte {
	out, err := deletePath(line, "tokens")
	if err != nil || !json.Valid(out) {
		return line
	}
	return out
}
