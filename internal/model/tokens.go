package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/org/rollout-action/internal/model/inspect"
	"github.com/org/rollout-action/internal/model/sse"
)

// Tokens are the ids of a turn's tokens, as the server of the model states them. Training programs
// need them, because texts do not show how they were divided into tokens. Source: vLLM 0.33 and
// SGLang 0.5.23, with return_token_ids and logprobs in a request of Chat Completions.
type Tokens struct {
	Prompt     []int32   `json:"prompt_ids"`
	Completion []int32   `json:"completion_ids"`
	Logprobs   []float64 `json:"completion_logprobs,omitempty"` // as many as Completion; nil unless the server states one for each
}

// maxTokenIDs is the maximum number of ids of a turn's prompt, and of its answer.
const maxTokenIDs = 1 << 20

// idsKey is the parameter with which a request asks for ids of tokens.
const idsKey = "return_token_ids"

// asksForTokens returns a request that asks for the ids of tokens and their log probabilities.
func asksForTokens(body []byte) ([]byte, error) {
	var err error
	for _, name := range []string{idsKey, "logprobs"} {
		if !gjson.GetBytes(body, name).Bool() && err == nil {
			body, err = set(body, name, true)
		}
	}
	return body, err
}

// SGLang refuses return_token_ids for streams. There these headers ask for the ids, which come in
// one event before the last.
var sglextHeaders = []string{"X-Sglext-Return-Input-Ids", "X-Sglext-Return-Output-Ids"}

// refusesStreams reports whether an error is SGLang's refusal of return_token_ids for streams.
func refusesStreams(status int, body []byte) bool {
	return status == http.StatusBadRequest && mentions(body, idsKey) && mentions(body, "stream")
}

// tokenReader collects the tokens of an answer, and hides them from clients that did not ask for
// them.
type tokenReader struct {
	Tokens
	broken       bool // not in the format of model servers
	noLogprobs   bool
	hideIDs      bool
	hideLogprobs bool
	hideExt      bool
}

// newTokenReader returns a reader for the answer to the client's own body. ext: the headers of
// SGLang ask for ids.
func newTokenReader(asked []byte, ext bool) *tokenReader {
	get := func(name string) gjson.Result { return gjson.GetBytes(asked, name) }
	return &tokenReader{
		hideIDs: !get(idsKey).Bool(), hideLogprobs: !get("logprobs").Bool(), hideExt: ext,
		broken: get("include_reasoning").Type == gjson.False, // vLLM then leaves out the ids of the reasoning
	}
}

// read reads an answer, or an event of one.
func (t *tokenReader) read(data []byte) {
	if t.broken {
		return
	}
	root := gjson.ParseBytes(data)
	var choice gjson.Result // the first one: others are not recorded
	root.Get("choices").ForEach(func(_, one gjson.Result) bool {
		if index := one.Get("index"); !index.Exists() || index.Type == gjson.Number && index.Num == 0 {
			choice = one
		}
		return !choice.Exists()
	})
	for _, prompt := range []gjson.Result{root.Get("prompt_token_ids"), choice.Get("prompt_token_ids"), root.Get("sglext.input_ids")} {
		if len(t.Prompt) == 0 || !prompt.IsArray() { // once is enough
			t.add(&t.Prompt, prompt)
		}
	}
	if whole := firstExisting(choice.Get("response_token_ids"), root.Get("sglext.output_ids.0")); whole.Exists() && len(t.Completion) == 0 {
		t.add(&t.Completion, whole)
	}
	t.add(&t.Completion, choice.Get("token_ids")) // in a stream, those of each event
	choice.Get("logprobs.content").ForEach(func(_, one gjson.Result) bool {
		p := one.Get("logprob")
		if p.Type != gjson.Number || math.IsInf(p.Num, 0) || p.Num > maxLogprob || len(t.Logprobs) >= maxTokenIDs {
			t.noLogprobs = true
			return false
		}
		t.Logprobs = append(t.Logprobs, p.Num)
		return true
	})
}

// maxLogprob is above 0, because servers round.
const maxLogprob = 1e-3

func firstExisting(list ...gjson.Result) gjson.Result {
	for _, one := range list {
		if one.Exists() {
			return one
		}
	}
	return gjson.Result{}
}

// add adds a list of ids. No list, or null, adds none.
func (t *tokenReader) add(to *[]int32, list gjson.Result) {
	if list.Type == gjson.Null {
		return
	}
	if !list.IsArray() {
		t.broken = true
		return
	}
	list.ForEach(func(_, n gjson.Result) bool {
		if n.Type != gjson.Number || n.Num < 0 || n.Num > math.MaxInt32 || n.Num != math.Trunc(n.Num) || len(*to) >= maxTokenIDs {
			t.broken = true
			return false
		}
		*to = append(*to, int32(n.Num))
		return true
	})
}

// tokens returns the tokens that were read; nil if there are no ids, or they are malformed. Log
// probabilities are left out unless there is one for each id.
func (t *tokenReader) tokens() *Tokens {
	if t == nil || t.broken || len(t.Prompt) == 0 || len(t.Completion) == 0 {
		return nil
	}
	out := t.Tokens
	if t.noLogprobs || len(out.Logprobs) != len(out.Completion) {
		out.Logprobs = nil
	}
	return &out
}

// hide returns an answer, or the data of an event, without fields that the client did not ask for.
// All other bytes stay as they are. drop: nothing is left of the event.
func (t *tokenReader) hide(data []byte) (out []byte, drop bool) {
	out = data
	remove := func(path string) {
		if gjson.GetBytes(out, path).Exists() {
			if changed, err := deletePath(out, path); err == nil {
				out = changed
			}
		}
	}
	if t.hideIDs {
		remove("prompt_token_ids")
	}
	for i := range min(int(gjson.GetBytes(data, "choices.#").Int()), maxBlocks) {
		at := fmt.Sprintf("choices.%d.", i)
		if t.hideIDs {
			remove(at + "prompt_token_ids")
			remove(at + "token_ids")
			remove(at + "response_token_ids")
		}
		if v := gjson.GetBytes(out, at+"logprobs"); t.hideLogprobs && v.Exists() && v.Type != gjson.Null {
			if changed, err := setRaw(out, at+"logprobs", []byte("null")); err == nil { // as servers write it by default
				out = changed
			}
		}
	}
	if t.hideExt && gjson.GetBytes(out, "sglext").IsObject() {
		remove("sglext.input_ids")
		remove("sglext.output_ids")
		if len(gjson.GetBytes(out, "sglext").Map()) == 0 {
			remove("sglext")
			choices := gjson.GetBytes(out, "choices")
			drop = choices.IsArray() && len(choices.Array()) == 0 && !gjson.GetBytes(out, "usage").IsObject()
		}
	}
	return out, drop
}

// hideEvent returns an event without fields that the client did not ask for.
func (t *tokenReader) hideEvent(e sse.Event) (out sse.Event, drop bool) {
	if !inspect.Valid(e.Data) {
		return e, false
	}
	data, drop := t.hide(e.Data)
	switch {
	case bytes.Equal(data, e.Data):
	case bytes.Count(e.Raw, e.Data) == 1:
		e.Raw = bytes.Replace(e.Raw, e.Data, data, 1)
	default: // the data is on several lines
		e.Raw = append(append([]byte("data: "), bytes.ReplaceAll(data, []byte("\n"), []byte("\ndata: "))...), "\n\n"...)
	}
	return e, drop
}

// WithoutTokenIDs returns the body of an answer without ids of tokens and log probabilities: for
// answers in which a secret was hidden.
func WithoutTokenIDs(contentType string, body []byte) []byte {
	t := &tokenReader{hideIDs: true, hideLogprobs: true, hideExt: true}
	if !sse.IsStream(contentType) {
		out, _ := t.hide(body)
		return out
	}
	var out bytes.Buffer
	for events := sse.NewReader(bytes.NewReader(body)); ; {
		e, err := events.Next()
		e, drop := t.hideEvent(e)
		if !drop {
			out.Write(e.Raw)
		}
		if err != nil {
			return out.Bytes()
		}
	}
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

// latestTokens are the tokens of the latest turn of a record with tokens.
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
	out, err := deletePath(line, "tokens")
	if err != nil || !json.Valid(out) {
		return line
	}
	return out
}
