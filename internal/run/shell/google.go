package shell

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/tidwall/gjson"
)

// google is a conversation in Gemini's generateContent API. Source:
// https://ai.google.dev/gemini-api/docs/function-calling.
type google struct {
	model    string
	bare     bool
	contents []googleContent
}

type googleContent struct {
	Role  string            `json:"role"`
	Parts []json.RawMessage `json:"parts"`
}

type googleRequest struct {
	System   object          `json:"systemInstruction,omitempty"`
	Contents []googleContent `json:"contents"`
	Tools    []object        `json:"tools,omitempty"`
}

func (*google) headers() map[string]string { return nil }

func (c *google) request() (string, any) {
	parameters := object{
		"type": "OBJECT",
		"properties": object{
			"command":     object{"type": "STRING", "description": commandText},
			"timeout_sec": object{"type": "INTEGER", "description": timeoutText},
		},
		"required": []string{"command"},
	}
	r := googleRequest{Contents: c.contents}
	if !c.bare {
		r.System = object{"parts": []object{{"text": SystemPrompt}}}
		r.Tools = []object{{"functionDeclarations": []object{{"name": ToolName, "description": ToolDescription, "parameters": parameters}}}}
	}
	return "/v1beta/models/" + url.PathEscape(c.model) + ":streamGenerateContent?alt=sse", r
}

func (c *google) user(text string) {
	c.contents = append(c.contents, googleContent{"user", []json.RawMessage{rawOf(object{"text": text})}})
}

func (c *google) add(a answer) {
	if len(a.raw) > 0 {
		c.contents = append(c.contents, googleContent{"model", a.raw})
	}
}

func (c *google) results(list []reply) {
	var parts []json.RawMessage
	for _, r := range list {
		key := "output"
		if r.failed {
			key = "error"
		}
		response := object{"name": safeName(r.call.name), "response": object{key: r.text}}
		if r.call.id != "" {
			response["id"] = r.call.id
		}
		parts = append(parts, rawOf(object{"functionResponse": response}))
	}
	c.contents = append(c.contents, googleContent{"user", parts})
}

func (*google) adapt(int, []byte) bool { return false }

func (*google) reader() reader { return &googleReader{} }

type googleReader struct {
	parts  []googlePart
	why    string
	failed string
}

// googlePart is a part as it was received. text collects a text that arrives in pieces.
type googlePart struct {
	raw     json.RawMessage
	text    *strings.Builder // nil: the part is no text
	thought bool
	signed  bool
}

func (r *googleReader) event(data []byte) { r.plain(gjson.ParseBytes(data)) }

// plain reads an answer, or a piece of one. Consecutive texts are one part, unless a signature
// comes between them: it belongs to its own part.
func (r *googleReader) plain(all gjson.Result) {
	if failed := all.Get("error"); failed.Exists() {
		r.failed = firstOf(failed.Get("message").String(), "error")
	}
	r.why = firstOf(all.Get("candidates.0.finishReason").String(), all.Get("promptFeedback.blockReason").String(), r.why)
	all.Get("candidates.0.content.parts").ForEach(func(_, p gjson.Result) bool {
		one := googlePart{raw: copied(p), thought: p.Get("thought").Bool(), signed: p.Get("thoughtSignature").String() != ""}
		text := p.Get("text")
		if text.Exists() {
			if text.String() == "" && !one.signed {
				return true
			}
			if n := len(r.parts); n > 0 && !one.signed && r.parts[n-1].text != nil && !r.parts[n-1].signed && r.parts[n-1].thought == one.thought {
				r.parts[n-1].text.WriteString(text.String())
				return true
			}
			one.text = &strings.Builder{}
			one.text.WriteString(text.String())
		}
		if len(r.parts) < maxParts {
			r.parts = append(r.parts, one)
		}
		return true
	})
}

func (r *googleReader) ended() bool { return r.why != "" }

func (r *googleReader) answer() answer {
	a := answer{why: r.why, end: endOf(r.why), failed: r.failed}
	for _, p := range r.parts {
		raw := p.raw
		if p.text != nil {
			raw = set(raw, "text", string(rawOf(p.text.String())))
			if !p.thought {
				a.text += p.text.String()
			}
		}
		if f := gjson.GetBytes(raw, "functionCall"); f.IsObject() {
			if name := f.Get("name").String(); name != safeName(name) {
				raw = set(raw, "functionCall.name", string(rawOf(safeName(name))))
			}
			a.calls = append(a.calls, call{id: f.Get("id").String(), name: f.Get("name").String(), arguments: firstOf(f.Get("args").Raw, "{}")})
		}
		a.raw = append(a.raw, raw)
	}
	return a
}
