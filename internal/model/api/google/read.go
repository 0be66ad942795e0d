package google

import (
	"cmp"

	"github.com/tidwall/gjson"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/api/internal/apijson"
	"github.com/org/rollout-action/internal/model/sse"
)

// Conversation implements api.Protocol.
func (API) Conversation(_ string, body []byte) model.Conversation {
	var c model.Conversation
	root := gjson.ParseBytes(body)
	for _, name := range []string{"systemInstruction", "system_instruction"} {
		if parts := partsOf(root.Get(name + ".parts")); len(parts) > 0 {
			c.Messages = append(c.Messages, model.Message{Role: "system", Parts: parts})
		}
	}
	root.Get("contents").ForEach(func(_, m gjson.Result) bool {
		role := cmp.Or(m.Get("role").String(), "user")
		if role == "model" {
			role = "assistant"
		}
		c.Messages = append(c.Messages, apijson.SplitResults(model.Message{Role: role, Parts: partsOf(m.Get("parts"))})...)
		return true
	})
	root.Get("tools").ForEach(func(_, t gjson.Result) bool {
		t.Get("functionDeclarations").ForEach(func(_, f gjson.Result) bool {
			parameters := f.Get("parametersJsonSchema")
			if !parameters.Exists() {
				parameters = f.Get("parameters")
			}
			c.Tools = append(c.Tools, model.Tool{Name: f.Get("name").String(), Description: f.Get("description").String(), Parameters: apijson.Copy(parameters)})
			return true
		})
		return true
	})
	return c
}

// partsOf reads parts. Calls that have no id are identified by their names.
func partsOf(list gjson.Result) []model.Part {
	var parts []model.Part
	list.ForEach(func(_, p gjson.Result) bool {
		call, result := p.Get("functionCall"), p.Get("functionResponse")
		switch {
		case call.Exists():
			name := call.Get("name").String()
			parts = append(parts, model.Part{Type: model.PartCall, ID: cmp.Or(call.Get("id").String(), name), Name: name, Arguments: apijson.Arguments(call.Get("args").Raw)})
		case result.Exists():
			response := result.Get("response")
			text := cmp.Or(response.Get("output").String(), response.Get("error").String(), response.Raw)
			parts = append(parts, model.Part{
				Type: model.PartResult, ID: cmp.Or(result.Get("id").String(), result.Get("name").String()), Text: text, Failed: response.Get("error").Exists(),
			})
		case p.Get("thought").Bool():
			parts = append(parts, model.Part{Type: model.PartReasoning, Text: p.Get("text").String()})
		case p.Get("text").Exists():
			if p.Get("text").String() == "" {
				break // of the last piece of a stream
			}
			parts = append(parts, model.Part{Type: model.PartText, Text: p.Get("text").String()})
		default:
			parts = append(parts, model.Part{Type: model.PartMedia, Media: cmp.Or(p.Get("inlineData.mimeType").String(), p.Get("fileData.mimeType").String(), "part")})
		}
		return true
	})
	return parts
}

// readAnswer adds an answer, or a piece of one. Its promptTokenCount includes tokens that were read
// from a cache; thoughts are not in candidatesTokenCount; each piece of a stream counts the whole.
func (r *reader) readAnswer(root gjson.Result) {
	r.a.Model, r.a.ID = cmp.Or(root.Get("modelVersion").String(), r.a.Model), cmp.Or(root.Get("responseId").String(), r.a.ID)
	if failed := root.Get("error"); failed.Exists() {
		r.a.Failed = cmp.Or(failed.Get("message").String(), "error")
	}
	if blocked := root.Get("promptFeedback.blockReason").String(); blocked != "" {
		r.a.Finish = blocked
	}
	candidate := candidateOf(root)
	r.searches += int64(len(candidate.Get("groundingMetadata.webSearchQueries").Array()))
	for _, p := range partsOf(candidate.Get("content.parts")) {
		if n := len(r.parts); n > 0 && r.parts[n-1].Type == p.Type && (p.Type == model.PartText || p.Type == model.PartReasoning) {
			if r.size += len(p.Text); r.size <= apijson.MaxAnswer {
				r.parts[n-1].Text += p.Text
			}
			continue
		}
		if len(r.parts) < apijson.MaxParts {
			r.parts = append(r.parts, p)
		}
	}
	r.a.Finish = cmp.Or(candidate.Get("finishReason").String(), r.a.Finish)
	if u := root.Get("usageMetadata"); u.IsObject() {
		thoughts := apijson.Number(u.Get("thoughtsTokenCount"))
		r.a.Usage = model.Usage{
			Input: apijson.Add(apijson.Number(u.Get("promptTokenCount")), apijson.Number(u.Get("toolUsePromptTokenCount"))), Cached: apijson.Number(u.Get("cachedContentTokenCount")),
			Output: apijson.Add(apijson.Number(u.Get("candidatesTokenCount")), thoughts), Reasoning: thoughts,
		}
		r.a.Usage.Contradiction = apijson.Contradiction(r.a.Usage, apijson.Number(u.Get("totalTokenCount")))
	}
	if r.searches > 0 {
		r.a.Usage.Searches = new(r.searches)
	}
}

// candidateOf returns the first of several answers.
func candidateOf(root gjson.Result) gjson.Result {
	var first gjson.Result
	root.Get("candidates").ForEach(func(_, one gjson.Result) bool {
		first = one
		return one.Get("index").Int() != 0
	})
	if first.Get("index").Int() != 0 {
		return gjson.Result{}
	}
	return first
}

// Answer reads an answer, or the pieces of one in an array: a stream that was asked for without
// alt=sse.
func (API) Answer(body []byte) model.Answer {
	r := &reader{}
	root := gjson.ParseBytes(body)
	if root.IsArray() {
		root.ForEach(func(_, piece gjson.Result) bool {
			r.readAnswer(piece)
			return true
		})
	} else {
		r.readAnswer(root)
	}
	a, _ := r.Answer()
	return a
}

// Reader implements api.Protocol.
func (API) Reader([]byte) model.StreamReader { return &reader{} }

type reader struct {
	a     model.Answer
	parts []model.Part
	size  int
	// searches is the number of web searches that the provider made.
	searches int64
}

// Read recognises the last event by its finishReason: the stream has no other end mark.
func (r *reader) Read(e sse.Event) (hide, last bool) {
	root := gjson.ParseBytes(e.Data)
	r.readAnswer(root)
	return false, r.a.Finish != "" && root.Get("candidates.0.finishReason").Exists()
}

// Answer implements model.StreamReader.
func (r *reader) Answer() (model.Answer, bool) {
	r.a.Message = model.Message{Role: "assistant", Parts: r.parts}
	return r.a, r.a.Finish != ""
}
