package model

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/org/rollout-action/internal/model/inspect"
	"github.com/org/rollout-action/internal/model/sse"
)

// anthropic is the Messages API.
type anthropic struct{}

func (anthropic) route(method, path string) route {
	switch path = versionless(path, "v1"); {
	case method == http.MethodPost && path == "/messages":
		return routeTurn
	case method == http.MethodPost && path == "/messages/count_tokens":
		return routeCount
	case method == http.MethodGet && path == "/models":
		return routeList
	}
	return routeNone
}

func (anthropic) streams(_ string, body []byte) bool { return gjson.GetBytes(body, "stream").Bool() }

func (anthropic) prepare(path string, body []byte, m *Model) (string, []byte, error) {
	body, err := set(body, "model", m.Upstream)
	if err == nil {
		body, err = setAll(body, "", m.Sampling, nil)
	}
	return "/v1" + versionless(path, "v1"), body, err
}

// rules returns the rules for tools: server tools have special types, and so do Anthropic's tools
// that the client runs. A search among the tools of the request does not reach the network.
func (anthropic) rules() inspect.Rules {
	return inspect.Rules{
		Client: func(t inspect.Tool) bool {
			for _, prefix := range []string{"bash_", "text_editor_", "computer_", "browser_toolset_", "memory_", "tool_search_"} {
				if strings.HasPrefix(t.Type, prefix) {
					return true
				}
			}
			return t.Type == "" || t.Type == "custom"
		},
		Text: typedText("text"),
	}
}

// typedText returns a function that encodes a text as a part of a message. kind is the part's type.
func typedText(kind string) func(string) []byte {
	return func(text string) []byte {
		return append(append([]byte(`{"type":"`+kind+`","text":`), encoded(text)...), '}')
	}
}

func (anthropic) conversation(_ string, body []byte) Conversation {
	var c Conversation
	root := gjson.ParseBytes(body)
	if parts := anthropicParts(root.Get("system")); len(parts) > 0 {
		c.Messages = append(c.Messages, Message{Role: "system", Parts: parts})
	}
	root.Get("messages").ForEach(func(_, m gjson.Result) bool {
		c.Messages = append(c.Messages, splitResults(Message{Role: m.Get("role").String(), Parts: anthropicParts(m.Get("content"))})...)
		return true
	})
	root.Get("tools").ForEach(func(_, t gjson.Result) bool {
		c.Tools = append(c.Tools, Tool{Name: t.Get("name").String(), Description: t.Get("description").String(), Parameters: rawJSON(t.Get("input_schema"))})
		return true
	})
	return c
}

// splitResults moves the results of tools out of a user's message, in which this API puts them,
// into separate messages.
func splitResults(m Message) []Message {
	var out []Message
	rest := Message{Role: m.Role}
	for _, p := range m.Parts {
		if p.Type == PartResult {
			out = append(out, Message{Role: "tool", Parts: []Part{p}})
		} else {
			rest.Parts = append(rest.Parts, p)
		}
	}
	if len(rest.Parts) > 0 || len(out) == 0 {
		out = append(out, rest)
	}
	return out
}

func anthropicParts(content gjson.Result) []Part {
	if content.Type == gjson.String {
		return []Part{{Type: PartText, Text: content.String()}}
	}
	var parts []Part
	content.ForEach(func(_, b gjson.Result) bool {
		switch kind := b.Get("type").String(); kind {
		case "text":
			parts = append(parts, Part{Type: PartText, Text: b.Get("text").String()})
		case "thinking":
			parts = append(parts, Part{Type: PartReasoning, Text: b.Get("thinking").String()})
		case "redacted_thinking":
			parts = append(parts, Part{Type: PartReasoning, Media: kind})
		case "tool_use", "server_tool_use":
			parts = append(parts, Part{Type: PartCall, ID: b.Get("id").String(), Name: b.Get("name").String(), Arguments: raw(b.Get("input").Raw)})
		case "tool_result":
			parts = append(parts, Part{
				Type: PartResult, ID: b.Get("tool_use_id").String(), Text: textOf(anthropicParts(b.Get("content"))), Failed: b.Get("is_error").Bool(),
			})
		default:
			media := b.Get("source.media_type").String()
			if media == "" {
				media = kind
			}
			parts = append(parts, Part{Type: PartMedia, Media: media})
		}
		return true
	})
	return parts
}

// anthropicUsage collects usage objects. Each has the state of the whole message, but may leave out
// counts that an earlier one stated.
type anthropicUsage struct {
	own   Usage  // Input is without tokens that were read from or written to a cache
	apart *Usage // of iterations that are not in the counts of the message
}

func (s *anthropicUsage) read(v gjson.Result) {
	u := &s.own
	for path, to := range map[string]**int64{
		"input_tokens": &u.Input, "cache_read_input_tokens": &u.Cached, "cache_creation_input_tokens": &u.CacheWrite,
		"cache_creation.ephemeral_1h_input_tokens": &u.CacheWriteHour, "output_tokens": &u.Output,
		"output_tokens_details.thinking_tokens": &u.Reasoning, "server_tool_use.web_search_requests": &u.Searches,
	} {
		if n := number(v.Get(path)); n != nil {
			*to = n
		}
	}
	v.Get("server_tool_use").ForEach(func(name, n gjson.Result) bool {
		// Fetching costs only its tokens.
		u.Apart = u.Apart || n.Int() > 0 && name.Str != "web_search_requests" && name.Str != "web_fetch_requests"
		return true
	})
	if list := v.Get("iterations"); list.IsArray() {
		s.apart = iterations(list)
	}
}

// iterations returns the usage of the iterations that are billed apart from the message, such as
// those that compact the conversation. Source: the documentation of compaction, "Understanding
// usage".
func iterations(list gjson.Result) *Usage {
	var out *Usage
	list.ForEach(func(_, one gjson.Result) bool {
		if one.Get("type").String() == "message" {
			return true
		}
		var s anthropicUsage
		s.read(one)
		u := s.usage()
		u.Apart = one.Get("model").String() != "" // which has another price
		if out != nil {
			u = out.Plus(u)
		}
		out = &u
		return true
	})
	return out
}

// usage returns the sum. Input includes the tokens that were read from or written to a cache.
func (s *anthropicUsage) usage() Usage {
	u := s.own
	if u.Input != nil {
		u.Input = addAll(u.Input, u.Cached, u.CacheWrite)
	}
	if s.apart != nil {
		u = u.Plus(*s.apart)
	}
	return u
}

func (anthropic) answer(body []byte) Answer {
	root := gjson.ParseBytes(body)
	var usage anthropicUsage
	usage.read(root.Get("usage"))
	return Answer{
		Message: Message{Role: "assistant", Parts: anthropicParts(root.Get("content"))}, Model: root.Get("model").String(),
		ID: root.Get("id").String(), Finish: root.Get("stop_reason").String(), Usage: usage.usage(),
	}
}

func (anthropic) reader([]byte) eventReader { return &anthropicReader{} }

type anthropicReader struct {
	a     Answer
	usage anthropicUsage
	parts blocks
	ended bool
}

func (r *anthropicReader) read(e sse.Event) (hide, last bool) {
	root := gjson.ParseBytes(e.Data)
	switch root.Get("type").String() {
	case "message_start":
		m := root.Get("message")
		r.a.ID, r.a.Model = m.Get("id").String(), m.Get("model").String()
		r.usage.read(m.Get("usage"))
	case "content_block_start":
		b, at := root.Get("content_block"), int(root.Get("index").Int())
		for _, p := range anthropicParts(gjson.Parse("[" + b.Raw + "]")) {
			if p.Type == PartCall {
				p.Arguments = nil // of the deltas
			}
			r.parts.put(at, p)
		}
	case "content_block_delta":
		d, at := root.Get("delta"), int(root.Get("index").Int())
		r.parts.add(at, d.Get("text").String()+d.Get("thinking").String(), d.Get("partial_json").String())
	case "message_delta":
		if stop := root.Get("delta.stop_reason").String(); stop != "" {
			r.a.Finish = stop
		}
		r.usage.read(root.Get("usage"))
	case "error":
		r.a.Failed = firstNonEmpty(root.Get("error.message").String(), root.Get("error.type").String(), "error")
	case "message_stop":
		r.ended = true
		return false, true
	}
	return false, false
}

func (r *anthropicReader) answer() (Answer, bool) {
	r.a.Message, r.a.Usage = Message{Role: "assistant", Parts: r.parts.all()}, r.usage.usage()
	return r.a, r.ended
}

func (anthropic) authorise(r *http.Request, key string) { r.Header.Set("X-Api-Key", key) }

func (anthropic) keepAlive([]byte) []byte {
	return []byte("event: ping\ndata: {\"type\": \"ping\"}\n\n")
}

func (anthropic) failure(code int, kind, message string) []byte {
	types := map[int]string{
		http.StatusUnauthorized: "authentication_error", http.StatusNotFound: "not_found_error", http.StatusRequestEntityTooLarge: "request_too_large",
		http.StatusBadGateway: "api_error", http.StatusServiceUnavailable: "api_error", http.StatusGatewayTimeout: "timeout_error", http.StatusPaymentRequired: "billing_error",
	}
	name := types[code]
	if name == "" {
		name = "invalid_request_error"
	}
	return encoded(map[string]any{"type": "error", "error": map[string]any{"type": name, "message": message, "code": kind}})
}

// refusalCode returns 402: after a 400, claude-code sends six more requests.
func (anthropic) refusalCode() int { return http.StatusPaymentRequired }

// versionless returns a path without the version at its beginning, if it has one: base URLs differ
// in that.
func versionless(path, version string) string {
	for strings.HasPrefix(path, "/"+version+"/") {
		path = path[len(version)+1:]
	}
	return path
}

// rawJSON returns the JSON of a value, or nil if it does not exist. It shares no memory with the
// request.
func rawJSON(v gjson.Result) json.RawMessage {
	if !v.Exists() {
		return nil
	}
	return bytes.Clone([]byte(v.Raw))
}

func textOf(parts []Part) string {
	var texts []string
	for _, p := range parts {
		switch {
		case p.Text != "":
			texts = append(texts, p.Text)
		case p.Type == PartMedia:
			texts = append(texts, "["+p.Media+"]")
		}
	}
	return strings.Join(texts, "\n")
}
