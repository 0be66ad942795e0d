package responses

import (
	"cmp"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api/internal/apijson"
	"github.com/org/rollout-action/internal/model/api/internal/openai"
	"github.com/org/rollout-action/internal/model/sse"
)

// Conversation implements api.Protocol.
func (API) Conversation(_ string, body []byte) model.Conversation {
	var c model.Conversation
	root := gjson.ParseBytes(body)
	if text := root.Get("instructions").String(); text != "" {
		c.Messages = append(c.Messages, model.Message{Role: "system", Parts: []model.Part{{Type: model.PartText, Text: text}}})
	}
	input := root.Get("input")
	if input.Type == gjson.String { // ForEach would call it an item
		c.Messages = append(c.Messages, model.Message{Role: "user", Parts: []model.Part{{Type: model.PartText, Text: input.String()}}})
		input = gjson.Result{}
	}
	input.ForEach(func(_, item gjson.Result) bool {
		m := itemOf(item)
		// The parts of one answer come as separate items.
		if n := len(c.Messages); n > 0 && m.Role == "assistant" && c.Messages[n-1].Role == "assistant" {
			c.Messages[n-1].Parts = append(c.Messages[n-1].Parts, m.Parts...)
			return true
		}
		c.Messages = append(c.Messages, m)
		return true
	})
	root.Get("tools").ForEach(func(_, t gjson.Result) bool {
		c.Tools = append(c.Tools, model.Tool{
			Name: cmp.Or(t.Get("name").String(), t.Get("type").String()), Description: t.Get("description").String(), Parameters: apijson.Copy(t.Get("parameters")),
		})
		return true
	})
	return c
}

// itemOf reads an item of input or output.
func itemOf(item gjson.Result) model.Message {
	switch kind := item.Get("type").String(); kind {
	case "message", "":
		role := item.Get("role").String()
		if role == "developer" {
			role = "system"
		}
		return model.Message{Role: cmp.Or(role, "assistant"), Parts: partsOf(item.Get("content"))}
	case "reasoning":
		var texts []string
		for _, path := range []string{"summary", "content"} {
			item.Get(path).ForEach(func(_, one gjson.Result) bool {
				texts = append(texts, one.Get("text").String())
				return true
			})
		}
		return model.Message{Role: "assistant", Parts: []model.Part{{Type: model.PartReasoning, Text: strings.Join(texts, "\n")}}}
	case "function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call":
		arguments := item.Get("arguments").String()
		if arguments == "" {
			arguments = cmp.Or(item.Get("input").String(), item.Get("action").Raw, item.Get("operation").Raw)
		}
		return model.Message{Role: "assistant", Parts: []model.Part{{
			Type: model.PartCall, ID: cmp.Or(item.Get("call_id").String(), item.Get("id").String()),
			Name: cmp.Or(item.Get("name").String(), strings.TrimSuffix(kind, "_call")), Arguments: apijson.Arguments(arguments),
		}}}
	case "function_call_output", "custom_tool_call_output", "local_shell_call_output", "shell_call_output", "apply_patch_call_output":
		output := item.Get("output")
		text := output.String()
		if output.IsArray() {
			text = apijson.Text(partsOf(output))
		}
		return model.Message{Role: "tool", Parts: []model.Part{{Type: model.PartResult, ID: cmp.Or(item.Get("call_id").String(), item.Get("id").String()), Text: text}}}
	default:
		return model.Message{Role: "assistant", Parts: []model.Part{{Type: model.PartMedia, Media: kind}}}
	}
}

func partsOf(content gjson.Result) []model.Part {
	if content.Type == gjson.String {
		return []model.Part{{Type: model.PartText, Text: content.String()}}
	}
	var parts []model.Part
	content.ForEach(func(_, b gjson.Result) bool {
		switch kind := b.Get("type").String(); kind {
		case "input_text", "output_text", "text", "refusal", "reasoning_text", "summary_text":
			parts = append(parts, model.Part{Type: model.PartText, Text: cmp.Or(b.Get("text").String(), b.Get("refusal").String())})
		default:
			parts = append(parts, model.Part{Type: model.PartMedia, Media: kind})
		}
		return true
	})
	return parts
}

// answerOf reads a response object. Its input_tokens include tokens that were read from a
// cache.
func answerOf(r gjson.Result) model.Answer {
	a := model.Answer{Message: model.Message{Role: "assistant"}, Model: r.Get("model").String(), ID: r.Get("id").String()}
	r.Get("output").ForEach(func(_, item gjson.Result) bool {
		a.Message.Parts = append(a.Message.Parts, itemOf(item).Parts...)
		return true
	})
	a.Finish = cmp.Or(r.Get("incomplete_details.reason").String(), r.Get("status").String())
	if failed := r.Get("error"); failed.IsObject() {
		a.Failed = cmp.Or(failed.Get("message").String(), failed.Get("code").String(), "error")
	}
	if u := r.Get("usage"); u.IsObject() {
		a.Usage = openai.ReasoningOutside(model.Usage{
			Input: apijson.Number(u.Get("input_tokens")), Cached: apijson.Number(u.Get("input_tokens_details.cached_tokens")),
			CacheWrite: apijson.Number(u.Get("input_tokens_details.cache_write_tokens")),
			Output:     apijson.Number(u.Get("output_tokens")), Reasoning: apijson.Number(u.Get("output_tokens_details.reasoning_tokens")), CostUSD: openai.Cost(u),
		}, apijson.Number(u.Get("total_tokens")))
	}
	countTools(r.Get("output"), &a.Usage)
	return a
}

// countTools adds the tools that the provider ran to a usage. Each is billed separately.
func countTools(output gjson.Result, u *model.Usage) {
	searches := int64(0)
	output.ForEach(func(_, item gjson.Result) bool {
		switch item.Get("type").String() {
		case "web_search_call":
			if action := item.Get("action.type").String(); action == "" || action == "search" { // opening a page costs nothing
				searches++
			}
		case "file_search_call", "code_interpreter_call", "image_generation_call":
			u.Apart = true
		}
		return true
	})
	if searches > 0 {
		u.Searches = new(searches)
	}
}

// Answer implements api.Protocol.
func (API) Answer(body []byte) model.Answer { return answerOf(gjson.ParseBytes(body)) }

// Reader implements api.Protocol.
func (API) Reader([]byte) model.StreamReader { return &reader{} }

type reader struct {
	a     model.Answer
	items []model.Part // of items that are complete, for answers that are cut off
	came  int64        // bytes of output, of those and of the ones that are not complete
	ended bool
}

// Read implements model.StreamReader.
func (r *reader) Read(e sse.Event) (hide, last bool) {
	root := gjson.ParseBytes(e.Data)
	kind := root.Get("type").String()
	if e.Long && !e.Partial { // its data is not held in memory
		kind = e.Name
	}
	if strings.HasSuffix(kind, ".delta") {
		r.came += int64(len(root.Get("delta").String()))
	}
	switch kind {
	case "response.created", "response.in_progress":
		r.a.Model, r.a.ID = root.Get("response.model").String(), root.Get("response.id").String()
	case "response.output_item.done":
		if len(r.items) < apijson.MaxParts {
			r.items = append(r.items, itemOf(root.Get("item")).Parts...)
		}
	case "response.completed", "response.incomplete", "response.failed":
		whole := answerOf(root.Get("response"))
		if e.Long {
			whole = r.a
			whole.Finish = strings.TrimPrefix(kind, "response.")
		}
		if len(whole.Message.Parts) == 0 {
			whole.Message.Parts = r.items
		}
		r.a, r.ended = whole, true
		return false, true
	case "error":
		r.a.Failed = cmp.Or(root.Get("message").String(), root.Get("error.message").String(), "error")
	}
	return false, false
}

// Answer implements model.StreamReader.
func (r *reader) Answer() (model.Answer, bool) {
	if !r.ended {
		r.a.Message, r.a.Received = model.Message{Role: "assistant", Parts: r.items}, r.came
	}
	return r.a, r.ended
}
