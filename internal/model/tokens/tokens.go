package tokens

import (
	"bytes"
	"fmt"
	"math"
	"net/http"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/inspect"
	"github.com/org/rollout-action/internal/model/sse"
)

// maxTokenIDs is the maximum number of ids of a turn's prompt, and of its answer.
const maxTokenIDs = 1 << 20

// maxChoices is the maximum number of choices of an answer that are changed.
const maxChoices = 4096

// IDsKey is the parameter with which a request asks for ids of tokens.
const IDsKey = "return_token_ids"

// Ask returns a request that asks for the ids of tokens and their log probabilities.
func Ask(body []byte) ([]byte, error) {
	var err error
	for _, name := range []string{IDsKey, "logprobs"} {
		if !gjson.GetBytes(body, name).Bool() && err == nil {
			body, err = sjson.SetBytes(body, name, true)
		}
	}
	return body, err
}

// StreamHeaders ask for the ids in streams, for which SGLang refuses return_token_ids. The ids come
// in one event before the last.
var StreamHeaders = []string{"X-Sglext-Return-Input-Ids", "X-Sglext-Return-Output-Ids"}

// RefusesStreams reports whether an error is SGLang's refusal of return_token_ids for streams.
func RefusesStreams(status int, body []byte) bool {
	return status == http.StatusBadRequest && mentions(body, IDsKey) && mentions(body, "stream")
}

// Refused reports whether an error is about the ids of tokens or their log probabilities.
func Refused(status int, body []byte) bool {
	return status == http.StatusBadRequest && (mentions(body, IDsKey) || mentions(body, "logprobs"))
}

func mentions(text []byte, word string) bool {
	return bytes.Contains(bytes.ToLower(text), []byte(word))
}

// Stated reports whether an answer has the ids of its tokens and a log probability for each.
func Stated(answer []byte) bool {
	r := NewReader(nil, false)
	r.Read(answer)
	t := r.Tokens()
	return t != nil && t.Logprobs != nil
}

// Reader collects the tokens of an answer, and hides them from clients that did not ask for
// them.
type Reader struct {
	found        model.Tokens
	Broken       bool // not in the format of model servers
	noLogprobs   bool
	hideIDs      bool
	hideLogprobs bool
	HideExt      bool // StreamHeaders ask for the ids
}

// NewReader returns a reader for the answer to the client's own body. ext: the headers of
// SGLang ask for ids.
func NewReader(asked []byte, ext bool) *Reader {
	get := func(name string) gjson.Result { return gjson.GetBytes(asked, name) }
	return &Reader{
		hideIDs: !get(IDsKey).Bool(), hideLogprobs: !get("logprobs").Bool(), HideExt: ext,
		Broken: get("include_reasoning").Type == gjson.False, // vLLM then leaves out the ids of the reasoning
	}
}

// Read reads an answer, or an event of one.
func (t *Reader) Read(data []byte) {
	if t.Broken {
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
		if len(t.found.Prompt) == 0 || !prompt.IsArray() { // once is enough
			t.add(&t.found.Prompt, prompt)
		}
	}
	if whole := firstExisting(choice.Get("response_token_ids"), root.Get("sglext.output_ids.0")); whole.Exists() && len(t.found.Completion) == 0 {
		t.add(&t.found.Completion, whole)
	}
	t.add(&t.found.Completion, choice.Get("token_ids")) // in a stream, those of each event
	choice.Get("logprobs.content").ForEach(func(_, one gjson.Result) bool {
		p := one.Get("logprob")
		if p.Type != gjson.Number || math.IsInf(p.Num, 0) || p.Num > maxLogprob || len(t.found.Logprobs) >= maxTokenIDs {
			t.noLogprobs = true
			return false
		}
		t.found.Logprobs = append(t.found.Logprobs, p.Num)
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
func (t *Reader) add(to *[]int32, list gjson.Result) {
	if list.Type == gjson.Null {
		return
	}
	if !list.IsArray() {
		t.Broken = true
		return
	}
	list.ForEach(func(_, n gjson.Result) bool {
		if n.Type != gjson.Number || n.Num < 0 || n.Num > math.MaxInt32 || n.Num != math.Trunc(n.Num) || len(*to) >= maxTokenIDs {
			t.Broken = true
			return false
		}
		*to = append(*to, int32(n.Num))
		return true
	})
}

// Tokens returns the tokens that were read; nil if there are no ids, or they are malformed. Log
// probabilities are left out unless there is one for each id.
func (t *Reader) Tokens() *model.Tokens {
	if t == nil || t.Broken || len(t.found.Prompt) == 0 || len(t.found.Completion) == 0 {
		return nil
	}
	out := t.found
	if t.noLogprobs || len(out.Logprobs) != len(out.Completion) {
		out.Logprobs = nil
	}
	return &out
}

// Hide returns an answer, or the data of an event, without fields that the client did not ask for.
// All other bytes stay as they are. drop: nothing is left of the event.
func (t *Reader) Hide(data []byte) (out []byte, drop bool) {
	out = data
	remove := func(path string) {
		if gjson.GetBytes(out, path).Exists() {
			if changed, err := sjson.DeleteBytes(out, path); err == nil {
				out = changed
			}
		}
	}
	if t.hideIDs {
		remove("prompt_token_ids")
	}
	for i := range min(int(gjson.GetBytes(data, "choices.#").Int()), maxChoices) {
		at := fmt.Sprintf("choices.%d.", i)
		if t.hideIDs {
			remove(at + "prompt_token_ids")
			remove(at + "token_ids")
			remove(at + "response_token_ids")
		}
		if v := gjson.GetBytes(out, at+"logprobs"); t.hideLogprobs && v.Exists() && v.Type != gjson.Null {
			if changed, err := sjson.SetRawBytes(out, at+"logprobs", []byte("null")); err == nil { // as servers write it by default
				out = changed
			}
		}
	}
	if t.HideExt && gjson.GetBytes(out, "sglext").IsObject() {
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

// HideEvent returns an event without fields that the client did not ask for.
func (t *Reader) HideEvent(e sse.Event) (out sse.Event, drop bool) {
	if !inspect.Valid(e.Data) {
		return e, false
	}
	data, drop := t.Hide(e.Data)
	switch {
	case bytes.Equal(data, e.Data):
	case bytes.Count(e.Raw, e.Data) == 1:
		e.Raw = bytes.Replace(e.Raw, e.Data, data, 1)
	default: // the data is on several lines
		e.Raw = append(append([]byte("data: "), bytes.ReplaceAll(data, []byte("\n"), []byte("\ndata: "))...), "\n\n"...)
	}
	return e, drop
}

// Without returns the body of an answer without ids of tokens and log probabilities: for
// answers in which a secret was hidden.
func Without(contentType string, body []byte) []byte {
	t := &Reader{hideIDs: true, hideLogprobs: true, HideExt: true}
	if !sse.IsStream(contentType) {
		out, _ := t.Hide(body)
		return out
	}
	var out bytes.Buffer
	for events := sse.NewReader(bytes.NewReader(body)); ; {
		e, err := events.Next()
		e, drop := t.HideEvent(e)
		if !drop {
			out.Write(e.Raw)
		}
		if err != nil {
			return out.Bytes()
		}
	}
}
