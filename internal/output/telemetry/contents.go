package telemetry

import (
	"encoding/json"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.39.0"

	"github.com/org/rollout-action/internal/model"
)

// maxContents bounds the messages of one span, in bytes of JSON. Of a longer conversation, the last
// messages are kept.
const maxContents = 256 << 10

// conversation has the messages of a trial by their numbers, as the attributes have them.
type conversation struct {
	messages map[int]message
}

type message struct {
	parent int
	text   json.RawMessage
}

// The JSON of the conventions' attributes gen_ai.input.messages and gen_ai.output.messages.
type (
	chatMessage struct {
		Role         string `json:"role"`
		Parts        []part `json:"parts"`
		FinishReason string `json:"finish_reason,omitempty"`
	}
	part struct {
		Type      string          `json:"type"`
		Content   string          `json:"content,omitempty"`
		ID        string          `json:"id,omitempty"`
		Name      string          `json:"name,omitempty"`
		Arguments json.RawMessage `json:"arguments,omitempty"`
		Response  string          `json:"response,omitempty"`
		MediaType string          `json:"media_type,omitempty"`
	}
)

// add adds the new messages of a call.
func (c *conversation) add(line model.RecordedTurn) {
	if c.messages == nil {
		c.messages = map[int]message{}
	}
	for _, m := range line.Messages {
		finish := ""
		if m.ID == line.Answer {
			finish = line.Finish
		}
		c.messages[m.ID] = message{m.Parent, encode(m.Message, finish)}
	}
}

func encode(m model.Message, finish string) json.RawMessage {
	out := chatMessage{Role: m.Role, Parts: []part{}, FinishReason: finish}
	for _, p := range m.Parts {
		switch p.Type {
		case model.PartText, model.PartReasoning:
			out.Parts = append(out.Parts, part{Type: string(p.Type), Content: p.Text})
		case model.PartCall:
			out.Parts = append(out.Parts, part{Type: "tool_call", ID: p.ID, Name: p.Name, Arguments: p.Arguments})
		case model.PartResult:
			out.Parts = append(out.Parts, part{Type: "tool_call_response", ID: p.ID, Response: p.Text})
		case model.PartMedia:
			out.Parts = append(out.Parts, part{Type: "blob", MediaType: p.Media})
		}
	}
	text, err := json.Marshal(out)
	if err != nil { // arguments that are no JSON
		return json.RawMessage(`{"role":"assistant","parts":[]}`)
	}
	return text
}

// attributes returns the conversation that a call continued, and its answer.
func (c *conversation) attributes(line model.RecordedTurn) []attribute.KeyValue {
	var out []attribute.KeyValue
	if input := c.until(line.Last); input != "" {
		out = append(out, semconv.GenAIInputMessagesKey.String(input))
	}
	if answer, ok := c.messages[line.Answer]; ok && line.Answer != 0 && len(answer.text) <= maxContents {
		out = append(out, semconv.GenAIOutputMessagesKey.String("["+string(answer.text)+"]"))
	}
	return out
}

// until returns the messages up to one of them as a JSON list, the last ones within maxContents; ""
// if there are none.
func (c *conversation) until(id int) string {
	var chosen []json.RawMessage
	size := 0
	for id != 0 {
		m, ok := c.messages[id]
		if !ok || size+len(m.text) > maxContents || m.parent >= id { // a parent comes first, so that there is no circle
			break
		}
		size += len(m.text)
		chosen = append(chosen, m.text)
		id = m.parent
	}
	if len(chosen) == 0 {
		return ""
	}
	text := []byte{'['}
	for i := len(chosen) - 1; i >= 0; i-- {
		text = append(text, chosen[i]...)
		if i > 0 {
			text = append(text, ',')
		}
	}
	return string(append(text, ']'))
}
