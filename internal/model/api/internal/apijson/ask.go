package apijson

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/org/rollout-action/internal/model/asking"
	"github.com/org/rollout-action/internal/model/inspect"
)

// Schema describes the arguments of a tool as JSON Schema. name returns a type as the API names it.
func Schema(t *asking.Tool, name func(string) string) Object {
	properties, required := Object{}, []string{}
	for _, p := range t.Parameters {
		properties[p.Name] = Object{"type": name(p.Type), "description": p.Description}
		if p.Required {
			required = append(required, p.Name)
		}
	}
	return Object{"type": name("object"), "properties": properties, "required": required}
}

// Same returns a name of a type as JSON Schema has it.
func Same(name string) string { return name }

// Put returns a JSON object with key set to value, which is JSON.
func Put(in json.RawMessage, key, value string) json.RawMessage {
	out, err := sjson.SetRawBytes(slices.Clone(in), key, []byte(value))
	if err != nil {
		return in // not an object
	}
	return out
}

// IsObject reports whether a text is a JSON object.
func IsObject(text string) bool {
	return inspect.Valid([]byte(text)) && gjson.Parse(text).IsObject()
}

// OrEmpty returns arguments in the form in which they are sent back: an object. APIs refuse others.
func OrEmpty(arguments string) string {
	if IsObject(arguments) {
		return arguments
	}
	return "{}"
}

// SafeName returns a tool's name in the form in which it is sent back. Models invent names that no
// tool can have, and APIs refuse conversations with them.
func SafeName(name string) string {
	if name = SafeKey(name, '-'); name == "" {
		return "unknown"
	}
	return name[:min(len(name), 64)]
}

// SafeKey returns a text with letters, digits, _ and also; all others become _.
func SafeKey(text string, also rune) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == also || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, text)
}

// Raw returns a value as JSON, without escaping HTML characters. v is made of maps, slices, texts
// and numbers.
func Raw(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return json.RawMessage("null") // cannot happen
	}
	return json.RawMessage(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

// Copied returns a copy of JSON that shares no memory with an event.
func Copied(v gjson.Result) json.RawMessage { return json.RawMessage(strings.Clone(v.Raw)) }
