package google

import (
	"cmp"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/org/rollout-action/internal/model/api/internal/apijson"
	"github.com/org/rollout-action/internal/model/asking"
)

// conversation is one in Gemini's generateContent API. Source:
// https://ai.google.dev/gemini-api/docs/function-calling.
type conversation struct {
	asking.Options
	contents []askedContent
}

type askedContent struct {
	Role  string            `json:"role"`
	Parts []json.RawMessage `json:"parts"`
}

type askedRequest struct {
	System   apijson.Object   `json:"systemInstruction,omitempty"`
	Contents []askedContent   `json:"contents"`
	Tools    []apijson.Object `json:"tools,omitempty"`
}

// Ask implements api.Protocol.
func (API) Ask(o asking.Options) asking.Conversation {
	return &conversation{Options: o}
}

// Request implements asking.Conversation.
func (c *conversation) Request() (string, any) {
	r := askedRequest{Contents: c.contents}
	if c.System != "" {
		r.System = apijson.Object{"parts": []apijson.Object{{"text": c.System}}}
	}
	if c.Tool != nil {
		r.Tools = []apijson.Object{{"functionDeclarations": []apijson.Object{{"name": c.Tool.Name, "description": c.Tool.Description, "parameters": apijson.Schema(c.Tool, strings.ToUpper)}}}}
	}
	return "/v1beta/models/" + url.PathEscape(c.Model) + ":streamGenerateContent?alt=sse", r
}

// User implements asking.Conversation.
func (c *conversation) User(text string) {
	c.contents = append(c.contents, askedContent{"user", []json.RawMessage{apijson.Raw(apijson.Object{"text": text})}})
}

// Add implements asking.Conversation.
func (c *conversation) Add(a asking.Answer) {
	if len(a.Raw) > 0 {
		c.contents = append(c.contents, askedContent{"model", a.Raw})
	}
}

// Results implements asking.Conversation.
func (c *conversation) Results(list []asking.Result) {
	var parts []json.RawMessage
	for _, r := range list {
		key := "output"
		if r.Failed {
			key = "error"
		}
		response := apijson.Object{"name": apijson.SafeName(r.Call.Name), "response": apijson.Object{key: r.Text}}
		if r.Call.ID != "" {
			response["id"] = r.Call.ID
		}
		parts = append(parts, apijson.Raw(apijson.Object{"functionResponse": response}))
	}
	c.contents = append(c.contents, askedContent{"user", parts})
}

// Adapt implements asking.Conversation.
func (*conversation) Adapt(int, []byte) bool { return false }

// Reader implements asking.Conversation.
func (*conversation) Reader() asking.Reader { return &answerReader{} }

type answerReader struct {
	parts  []askedPart
	why    string
	failed string
}

// askedPart is a part as it was received. text collects a text that arrives in pieces.
type askedPart struct {
	raw     json.RawMessage
	text    *strings.Builder // nil: the part is no text
	thought bool
	signed  bool
}

// Event implements asking.Reader.
func (r *answerReader) Event(data []byte) { r.Plain(gjson.ParseBytes(data)) }

// Plain reads an answer, or a piece of one. Consecutive texts are one part, unless a signature
// comes between them: it belongs to its own part.
func (r *answerReader) Plain(all gjson.Result) {
	if failed := all.Get("error"); failed.Exists() {
		r.failed = cmp.Or(failed.Get("message").String(), "error")
	}
	r.why = cmp.Or(all.Get("candidates.0.finishReason").String(), all.Get("promptFeedback.blockReason").String(), r.why)
	all.Get("candidates.0.content.parts").ForEach(func(_, p gjson.Result) bool {
		one := askedPart{raw: apijson.Copied(p), thought: p.Get("thought").Bool(), signed: p.Get("thoughtSignature").String() != ""}
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
		if len(r.parts) < apijson.MaxParts {
			r.parts = append(r.parts, one)
		}
		return true
	})
}

// Ended implements asking.Reader.
func (r *answerReader) Ended() bool { return r.why != "" }

// Answer implements asking.Reader.
func (r *answerReader) Answer() asking.Answer {
	a := asking.Answer{Why: r.why, Failed: r.failed}
	for _, p := range r.parts {
		raw := p.raw
		if p.text != nil {
			raw = apijson.Put(raw, "text", string(apijson.Raw(p.text.String())))
			if !p.thought {
				a.Text += p.text.String()
			}
		}
		if f := gjson.GetBytes(raw, "functionCall"); f.IsObject() {
			if name := f.Get("name").String(); name != apijson.SafeName(name) {
				raw = apijson.Put(raw, "functionCall.name", string(apijson.Raw(apijson.SafeName(name))))
			}
			a.Calls = append(a.Calls, asking.Call{ID: f.Get("id").String(), Name: f.Get("name").String(), Arguments: cmp.Or(f.Get("args").Raw, "{}")})
		}
		a.Raw = append(a.Raw, raw)
	}
	return a
}
