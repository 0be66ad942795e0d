package chat

import (
	"github.com/tidwall/gjson"

	"github.com/org/rollout-action/internal/model/api/internal/apijson"
	"github.com/org/rollout-action/internal/model/api/internal/openai"
	"github.com/org/rollout-action/internal/model/rendering"
)

// Render implements api.Protocol.
func (API) Render(a rendering.Answer) []byte {
	s := newAnswer(a)
	message := apijson.Object{"role": "assistant", "content": s.Text}
	if s.Reasoning != "" {
		message["reasoning_content"] = s.Reasoning
	}
	if len(s.Calls) > 0 {
		message["tool_calls"] = s.calls(false)
	}
	choice := s.ids.choice(apijson.Object{"index": 0, "finish_reason": s.finish(), "message": message}, s.ids.part(0, 1))
	return apijson.JSON(s.object("chat.completion", s.ids.answer(apijson.Object{"choices": []any{choice}, "usage": s.usage()})))
}

// RenderStream implements api.Protocol.
func (API) RenderStream(a rendering.Answer) [][]byte {
	return newAnswer(a).events(gjson.GetBytes(a.Request, "stream_options.include_usage").Type == gjson.True)
}

// RenderFailedStream implements api.Protocol.
func (a API) RenderFailedStream(said rendering.Answer, e rendering.Error) [][]byte {
	s := newAnswer(said)
	s.Calls = nil
	events := s.events(false)
	// Without finish_reason and [DONE].
	return append(events[:len(events)-2], []byte("data: "+string(a.RenderError(e))+"\n\n"))
}

// RenderError implements api.Protocol.
func (API) RenderError(e rendering.Error) []byte {
	return apijson.JSON(apijson.Object{"error": openai.Error(e)})
}

// answerTo is an answer in the form of the API.
type answerTo struct {
	rendering.Answer
	ids *tokenIDs // nil: not requested
}

func newAnswer(a rendering.Answer) answerTo { return answerTo{a, tokenIDsOf(a)} }

func (s answerTo) object(kind string, more apijson.Object) apijson.Object {
	out := apijson.Object{"id": s.ID, "object": kind, "created": 1, "model": s.Model}
	for name, value := range more {
		out[name] = value
	}
	return out
}

func (s answerTo) finish() string {
	switch {
	case s.Truncated:
		return facts.Truncated
	case len(s.Calls) > 0:
		return "tool_calls"
	}
	return "stop"
}

func (s answerTo) calls(indexed bool) []any {
	var out []any
	for i, c := range s.Calls {
		one := apijson.Object{"id": c.ID, "type": "function", "function": apijson.Object{"name": c.Name, "arguments": string(c.Arguments)}}
		if indexed {
			one["index"] = i
		}
		out = append(out, one)
	}
	return out
}

func (s answerTo) usage() apijson.Object {
	u := s.Usage
	return apijson.Object{
		"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"prompt_tokens_details": apijson.Object{"cached_tokens": u.Cached, "cache_write_tokens": u.CacheWrite}, "completion_tokens_details": apijson.Object{"reasoning_tokens": u.Reasoning},
	}
}

func (s answerTo) events(withUsage bool) [][]byte {
	chunk := func(choice, more apijson.Object) []byte {
		more["choices"] = []any{choice}
		return apijson.Data(s.object("chat.completion.chunk", more), "\n")
	}
	delta := func(d apijson.Object, finish any) []byte {
		return chunk(apijson.Object{"index": 0, "delta": d, "finish_reason": finish}, apijson.Object{})
	}
	// The ids of tokens come in parts, as those of a server do.
	begin := s.ids.choice(apijson.Object{"index": 0, "delta": apijson.Object{"role": "assistant", "content": ""}, "finish_reason": nil}, s.ids.part(0, 0.5))
	out := [][]byte{chunk(begin, s.ids.answer(apijson.Object{}))}
	for _, piece := range apijson.Pieces(s.Reasoning) {
		out = append(out, delta(apijson.Object{"reasoning_content": piece}, nil))
	}
	for _, piece := range apijson.Pieces(s.Text) {
		out = append(out, delta(apijson.Object{"content": piece}, nil))
	}
	for _, one := range s.calls(true) {
		out = append(out, delta(apijson.Object{"tool_calls": []any{one}}, nil))
	}
	out = append(out, chunk(s.ids.choice(apijson.Object{"index": 0, "delta": apijson.Object{}, "finish_reason": s.finish()}, s.ids.part(0.5, 1)), apijson.Object{}))
	if withUsage {
		out = append(out, apijson.Data(s.object("chat.completion.chunk", apijson.Object{"choices": []any{}, "usage": s.usage()}), "\n"))
	}
	return append(out, []byte("data: [DONE]\n\n"))
}
