package apijson

import (
	"strings"

	"github.com/org/rollout-action/internal/model"
)

// TextPart returns a function that encodes a text as a part of a message. kind is the part's type.
func TextPart(kind string) func(string) []byte {
	return func(text string) []byte {
		return append(append([]byte(`{"type":"`+kind+`","text":`), JSON(text)...), '}')
	}
}

// SplitResults moves the results of tools out of a user's message, in which some APIs put them,
// into separate messages.
func SplitResults(m model.Message) []model.Message {
	var out []model.Message
	rest := model.Message{Role: m.Role}
	for _, p := range m.Parts {
		if p.Type == model.PartResult {
			out = append(out, model.Message{Role: "tool", Parts: []model.Part{p}})
		} else {
			rest.Parts = append(rest.Parts, p)
		}
	}
	if len(rest.Parts) > 0 || len(out) == 0 {
		out = append(out, rest)
	}
	return out
}

// Text returns the texts of parts, and the types of their media, as lines.
func Text(parts []model.Part) string {
	var texts []string
	for _, p := range parts {
		switch {
		case p.Text != "":
			texts = append(texts, p.Text)
		case p.Type == model.PartMedia:
			texts = append(texts, "["+p.Media+"]")
		}
	}
	return strings.Join(texts, "\n")
}
