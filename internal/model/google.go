package model

import (
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/org/rollout-action/internal/model/inspect"
	"github.com/org/rollout-action/internal/model/sse"
)

// google is Gemini's generateContent API.
type google struct{}

func (google) route(method, path string) route {
	path = versionless(path, "v1beta")
	action := path[strings.LastIndexByte(path, ':')+1:]
	switch {
	case method == http.MethodGet && path == "/models":
		return routeList
	case method != http.MethodPost || !strings.HasPrefix(path, "/models/"):
	case action == "generateContent", action == "streamGenerateContent":
		return routeTurn
	case action == "countTokens":
		return routeCount
	}
	return routeNone
}

func (google) streams(path string, _ []byte) bool {
	return strings.HasSuffix(path, ":streamGenerateContent")
}

// googleSampling maps the names of sampling parameters in other protocols to those of
// generationConfig.
var googleSampling = map[string]string{
	"top_p": "topP", "top_k": "topK", "max_tokens": "maxOutputTokens", "stop": "stopSequences", "presence_penalty": "presencePenalty", "frequency_penalty": "frequencyPenalty",
}

func (google) prepare(path string, body []byte, m *Model) (string, []byte, error) {
	action := path[strings.LastIndexByte(path, ':')+1:]
	config := inspect.KeyOf(body, "generationConfig") // either way of writing names is Google's
	inside := []byte(gjson.GetBytes(body, config).Raw)
	names := map[string]string{}
	for name := range m.Sampling {
		names[name] = inspect.KeyOf(inside, firstNonEmpty(googleSampling[name], name))
	}
	body, err := setAll(body, config+".", m.Sampling, names)
	return "/v1beta/models/" + m.Upstream + ":" + action, body, err
}

// rules returns the rules for tools: each key of a tool is a tool, and the client runs only
// functions and computer use.
func (google) rules() inspect.Rules {
	return inspect.Rules{
		Declared: []string{"functiondeclarations", "computeruse"},
		Text:     func(text string) []byte { return encoded(map[string]string{"text": text}) },
	}
}

func (google) conversation(_ string, body []byte) Conversation {
	var c Conversation
	root := gjson.ParseBytes(body)
	for _, name := range []string{"systemInstruction", "system_instruction"} {
		if parts := googleParts(root.Get(name + ".parts")); len(parts) > 0 {
			c.Messages = append(c.Messages, Message{Role: "system", Parts: parts})
		}
	}
	root.Get("contents").ForEach(func(_, m gjson.Result) bool {
		role := firstNonEmpty(m.Get("role").String(), "user")
		if role == "model" {
			role = "assistant"
		}
		c.Messages = append(c.Messages, splitResults(Message{Role: role, Parts: googleParts(m.Get("parts"))})...)
		return true
	})
	root.Get("tools").ForEach(func(_, t gjson.Result) bool {
		t.Get("functionDeclarations").ForEach(func(_, f gjson.Result) bool {
			parameters := f.Get("parametersJsonSchema")
			if !parameters.Exists() {
				parameters = f.Get("parameters")
			}
			c.Tools = append(c.Tools, Tool{Name: f.Get("name").String(), Description: f.Get("description").String(), Parameters: rawJSON(parameters)})
			return true
		})
		return true
	})
	return c
}

// googleParts reads parts. Calls that have no id are identified by their names.
func googleParts(list gjson.Result) []Part {
	var parts []Part
	list.ForEach(func(_, p gjson.Result) bool {
		call, result := p.Get("functionCall"), p.Get("functionResponse")
		switch {
		case call.Exists():
			name := call.Get("name").String()
			parts = append(parts, Part{Type: PartCall, ID: firstNonEmpty(call.Get("id").String(), name), Name: name, Arguments: raw(call.Get("args").Raw)})
		case result.Exists():
			response := result.Get("response")
			text := firstNonEmpty(response.Get("output").String(), response.Get("error").String(), response.Raw)
			parts = append(parts, Part{
				Type: PartResult, ID: firstNonEmpty(result.Get("id").String(), result.Get("name").String()), Text: text, Failed: response.Get("error").Exists(),
			})
		case p.Get("thought").Bool():
			parts = append(parts, Part{Type: PartReasoning, Text: p.Get("text").String()})
		case p.Get("text").Exists():
			if p.Get("text").String() == "" {
				break // of the last piece of a stream
			}
			parts = append(parts, Part{Type: PartText, Text: p.Get("text").String()})
		default:
			parts = append(parts, Part{Type: PartMedia, Media: firstNonEmpty(p.Get("inlineData.mimeType").String(), p.Get("fileData.mimeType").String(), "part")})
		}
		return true
	})
	return parts
}

// readAnswer adds an answer, or a piece of one. Its promptTokenCount includes tokens that were read
// from a cache; thoughts are not in candidatesTokenCount; each piece of a stream counts the whole.
func (r *googleReader) readAnswer(root gjson.Result) {
	r.a.Model, r.a.ID = firstNonEmpty(root.Get("modelVersion").String(), r.a.Model), firstNonEmpty(root.Get("responseId").String(), r.a.ID)
	if failed := root.Get("error"); failed.Exists() {
		r.a.Failed = firstNonEmpty(failed.Get("message").String(), "error")
	}
	if blocked := root.Get("promptFeedback.blockReason").String(); blocked != "" {
		r.a.Finish = blocked
	}
	candidate := googleCandidate(root)
	r.searches += int64(len(candidate.Get("groundingMetadata.webSearchQueries").Array()))
	for _, p := range googleParts(candidate.Get("content.parts")) {
		if n := len(r.parts); n > 0 && r.parts[n-1].Type == p.Type && (p.Type == PartText || p.Type == PartReasoning) {
			if r.size += len(p.Text); r.size <= maxAnswer {
				r.parts[n-1].Text += p.Text
			}
			continue
		}
		if len(r.parts) < maxBlocks {
			r.parts = append(r.parts, p)
		}
	}
	r.a.Finish = firstNonEmpty(candidate.Get("finishReason").String(), r.a.Finish)
	if u := root.Get("usageMetadata"); u.IsObject() {
		thoughts := number(u.Get("thoughtsTokenCount"))
		r.a.Usage = Usage{
			Input: addAll(number(u.Get("promptTokenCount")), number(u.Get("toolUsePromptTokenCount"))), Cached: number(u.Get("cachedContentTokenCount")),
			Output: addAll(number(u.Get("candidatesTokenCount")), thoughts), Reasoning: thoughts,
		}
		r.a.Usage.Contradiction = contradiction(r.a.Usage, number(u.Get("totalTokenCount")))
	}
	if r.searches > 0 {
		r.a.Usage.Searches = new(r.searches)
	}
}

// googleCandidate returns the first of several answers.
func googleCandidate(root gjson.Result) gjson.Result {
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

// answer reads an answer, or the pieces of one in an array: a stream that was asked for without
// alt=sse.
func (google) answer(body []byte) Answer {
	r := &googleReader{}
	root := gjson.ParseBytes(body)
	if root.IsArray() {
		root.ForEach(func(_, piece gjson.Result) bool {
			r.readAnswer(piece)
			return true
		})
	} else {
		r.readAnswer(root)
	}
	a, _ := r.answer()
	return a
}

func (google) reader([]byte) eventReader { return &googleReader{} }

type googleReader struct {
	a     Answer
	parts []Part
	size  int
	// searches is the number of web searches that the provider made.
	searches int64
}

// read recognises the last event by its finishReason: the stream has no other end mark.
func (r *googleReader) read(e sse.Event) (hide, last bool) {
	root := gjson.ParseBytes(e.Data)
	r.readAnswer(root)
	return false, r.a.Finish != "" && root.Get("candidates.0.finishReason").Exists()
}

func (r *googleReader) answer() (Answer, bool) {
	r.a.Message = Message{Role: "assistant", Parts: r.parts}
	return r.a, r.a.Finish != ""
}

func (google) authorise(r *http.Request, key string) { r.Header.Set("X-Goog-Api-Key", key) }

// keepAlive returns a blank line: gemini-cli breaks on comments.
func (google) keepAlive([]byte) []byte { return []byte("\r\n") }

func (google) failure(code int, kind, message string) []byte {
	names := map[int]string{
		http.StatusUnauthorized: "UNAUTHENTICATED", http.StatusNotFound: "NOT_FOUND", http.StatusConflict: "ABORTED",
		http.StatusBadGateway: "UNAVAILABLE", http.StatusServiceUnavailable: "UNAVAILABLE", http.StatusGatewayTimeout: "DEADLINE_EXCEEDED", http.StatusBadRequest: "FAILED_PRECONDITION",
	}
	return encoded(map[string]any{"error": map[string]any{
		"code": code, "message": message, "status": firstNonEmpty(names[code], "INVALID_ARGUMENT"), "details": []any{map[string]any{"reason": kind}},
	}})
}

func (google) refusalCode() int { return http.StatusBadRequest }
