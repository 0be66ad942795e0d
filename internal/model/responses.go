package model

import (
	"errors"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/org/rollout-action/internal/model/inspect"
	"github.com/org/rollout-action/internal/model/sse"
)

// responses is OpenAI's Responses API.
type responses struct{}

func (responses) route(method, path string) route {
	switch path = versionless(path, "v1"); {
	case method == http.MethodPost && path == "/responses":
		return routeTurn
	case method == http.MethodPost && path == "/responses/input_tokens":
		return routeCount
	case method == http.MethodGet && path == "/models":
		return routeList
	}
	return routeNone
}

func (responses) streams(_ string, body []byte) bool { return gjson.GetBytes(body, "stream").Bool() }

// errBackground refuses an answer that is made in the background: only the request that fetches it
// would see its cost.
var errBackground = errors.New("background: true is not possible at this gateway, which has no stored answers: ask without it")

// stored reports whether a request concerns an answer that the provider has stored.
func (responses) stored(method, path string) bool {
	below, ok := strings.CutPrefix(versionless(path, "v1"), "/responses/")
	switch method {
	case http.MethodGet, http.MethodDelete:
		return ok
	case http.MethodPost:
		return ok && strings.HasSuffix(below, "/cancel")
	}
	return false
}

func (responses) prepare(path string, body []byte, m *Model) (string, []byte, error) {
	if gjson.GetBytes(body, "background").Bool() {
		return "", nil, errBackground
	}
	body, err := set(body, "model", m.Upstream)
	if err == nil {
		body, err = setAll(body, "", m.Sampling, map[string]string{"max_tokens": "max_output_tokens", "reasoning_effort": "reasoning.effort"})
	}
	return "/v1" + versionless(path, "v1"), body, err
}

// rules returns the rules for tools: the provider runs all but functions and the client's tools.
// The tools in a namespace are checked one by one.
func (responses) rules() inspect.Rules {
	return inspect.Rules{
		Client: func(t inspect.Tool) bool {
			switch t.Type {
			case "function", "custom", "local_shell", "apply_patch", "computer", "computer_use_preview", "namespace", "":
				return true
			case "shell":
				return t.Environment == "" || t.Environment == "local"
			case "tool_search":
				return t.Execution == "client" // codex offers the tools of MCP servers by it
			}
			return false
		},
		Text: typedText("input_text"),
	}
}

func (responses) conversation(_ string, body []byte) Conversation {
	var c Conversation
	root := gjson.ParseBytes(body)
	if text := root.Get("instructions").String(); text != "" {
		c.Messages = append(c.Messages, Message{Role: "system", Parts: []Part{{Type: PartText, Text: text}}})
	}
	input := root.Get("input")
	if input.Type == gjson.String { // ForEach would call it an item
		c.Messages = append(c.Messages, Message{Role: "user", Parts: []Part{{Type: PartText, Text: input.String()}}})
		input = gjson.Result{}
	}
	input.ForEach(func(_, item gjson.Result) bool {
		m := responsesItem(item)
		// The parts of one answer come as separate items.
		if n := len(c.Messages); n > 0 && m.Role == "assistant" && c.Messages[n-1].Role == "assistant" {
			c.Messages[n-1].Parts = append(c.Messages[n-1].Parts, m.Parts...)
			return true
		}
		c.Messages = append(c.Messages, m)
		return true
	})
	root.Get("tools").ForEach(func(_, t gjson.Result) bool {
		c.Tools = append(c.Tools, Tool{
			Name: firstNonEmpty(t.Get("name").String(), t.Get("type").String()), Description: t.Get("description").String(), Parameters: rawJSON(t.Get("parameters")),
		})
		return true
	})
	return c
}

// responsesItem reads an item of input or output.
func responsesItem(item gjson.Result) Message {
	switch kind := item.Get("type").String(); kind {
	case "message", "":
		role := item.Get("role").String()
		if role == "developer" {
			role = "system"
		}
		return Message{Role: firstNonEmpty(role, "assistant"), Parts: responsesParts(item.Get("content"))}
	case "reasoning":
		var texts []string
		for _, path := range []string{"summary", "content"} {
			item.Get(path).ForEach(func(_, one gjson.Result) bool {
				texts = append(texts, one.Get("text").String())
				return true
			})
		}
		return Message{Role: "assistant", Parts: []Part{{Type: PartReasoning, Text: strings.Join(texts, "\n")}}}
	case "function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call":
		arguments := item.Get("arguments").String()
		if arguments == "" {
			arguments = firstNonEmpty(item.Get("input").String(), item.Get("action").Raw, item.Get("operation").Raw)
		}
		return Message{Role: "assistant", Parts: []Part{{
			Type: PartCall, ID: firstNonEmpty(item.Get("call_id").String(), item.Get("id").String()),
			Name: firstNonEmpty(item.Get("name").String(), strings.TrimSuffix(kind, "_call")), Arguments: raw(arguments),
		}}}
	case "function_call_output", "custom_tool_call_output", "local_shell_call_output", "shell_call_output", "apply_patch_call_output":
		output := item.Get("output")
		text := output.String()
		if output.IsArray() {
			text = textOf(responsesParts(output))
		}
		return Message{Role: "tool", Parts: []Part{{Type: PartResult, ID: firstNonEmpty(item.Get("call_id").String(), item.Get("id").String()), Text: text}}}
	default:
		return Message{Role: "assistant", Parts: []Part{{Type: PartMedia, Media: kind}}}
	}
}

func responsesParts(content gjson.Result) []Part {
	if content.Type == gjson.String {
		return []Part{{Type: PartText, Text: content.String()}}
	}
	var parts []Part
	content.ForEach(func(_, b gjson.Result) bool {
		switch kind := b.Get("type").String(); kind {
		case "input_text", "output_text", "text", "refusal", "reasoning_text", "summary_text":
			parts = append(parts, Part{Type: PartText, Text: firstNonEmpty(b.Get("text").String(), b.Get("refusal").String())})
		default:
			parts = append(parts, Part{Type: PartMedia, Media: kind})
		}
		return true
	})
	return parts
}

// responsesAnswer reads a response object. Its input_tokens include tokens that were read from a
// cache.
func responsesAnswer(r gjson.Result) Answer {
	a := Answer{Message: Message{Role: "assistant"}, Model: r.Get("model").String(), ID: r.Get("id").String()}
	r.Get("output").ForEach(func(_, item gjson.Result) bool {
		a.Message.Parts = append(a.Message.Parts, responsesItem(item).Parts...)
		return true
	})
	a.Finish = firstNonEmpty(r.Get("incomplete_details.reason").String(), r.Get("status").String())
	if failed := r.Get("error"); failed.IsObject() {
		a.Failed = firstNonEmpty(failed.Get("message").String(), failed.Get("code").String(), "error")
	}
	if u := r.Get("usage"); u.IsObject() {
		a.Usage = reasoningOutside(Usage{
			Input: number(u.Get("input_tokens")), Cached: number(u.Get("input_tokens_details.cached_tokens")),
			CacheWrite: number(u.Get("input_tokens_details.cache_write_tokens")),
			Output:     number(u.Get("output_tokens")), Reasoning: number(u.Get("output_tokens_details.reasoning_tokens")), CostUSD: ownCost(u),
		}, number(u.Get("total_tokens")))
	}
	countTools(r.Get("output"), &a.Usage)
	return a
}

// countTools adds the tools that the provider ran to a usage. Each is billed separately.
func countTools(output gjson.Result, u *Usage) {
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

func (responses) answer(body []byte) Answer { return responsesAnswer(gjson.ParseBytes(body)) }

func (responses) reader([]byte) eventReader { return &responsesReader{} }

type responsesReader struct {
	a     Answer
	items []Part // of items that are complete, for answers that are cut off
	came  int64  // bytes of output, of those and of the ones that are not complete
	ended bool
}

func (r *responsesReader) read(e sse.Event) (hide, last bool) {
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
		if len(r.items) < maxBlocks {
			r.items = append(r.items, responsesItem(root.Get("item")).Parts...)
		}
	case "response.completed", "response.incomplete", "response.failed":
		whole := responsesAnswer(root.Get("response"))
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
		r.a.Failed = firstNonEmpty(root.Get("message").String(), root.Get("error.message").String(), "error")
	}
	return false, false
}

func (r *responsesReader) answer() (Answer, bool) {
	if !r.ended {
		r.a.Message, r.a.came = Message{Role: "assistant", Parts: r.items}, r.came
	}
	return r.a, r.ended
}

func (responses) authorise(r *http.Request, key string) {
	r.Header.Set("Authorization", "Bearer "+key)
}

// keepAlive repeats the state of the answer: codex counts only events with data as signs of life.
// It has no state before the first.
func (responses) keepAlive(last []byte) []byte {
	if len(last) == 0 {
		return []byte(": keepalive\n\n")
	}
	event := encoded(map[string]any{"type": "response.in_progress", "sequence_number": gjson.GetBytes(last, "sequence_number").Int(),
		"response": map[string]any{"id": firstNonEmpty(gjson.GetBytes(last, "response.id").String(), "resp"), "object": "response", "status": "in_progress", "output": []any{}}})
	return []byte("event: response.in_progress\ndata: " + string(event) + "\n\n")
}

func (responses) failure(code int, kind, message string) []byte {
	return openAIFailure(code, kind, message)
}

func (responses) refusalCode() int { return http.StatusBadRequest }
