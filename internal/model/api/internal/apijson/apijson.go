package apijson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/org/rollout-action/internal/model"
	"github.com/org/rollout-action/internal/model/meter"
)

// Number returns a count, or nil if it is missing or not a count.
func Number(v gjson.Result) *int64 {
	if v.Type != gjson.Number || v.Num < 0 || v.Num > 1<<52 {
		return nil
	}
	return new(int64(v.Num))
}

// Dollars returns an amount, or nil.
func Dollars(v gjson.Result) *float64 {
	if v.Type != gjson.Number || v.Num < 0 || v.Num > 1e6 {
		return nil
	}
	return new(v.Num)
}

// Add returns the sum of the known counts, or nil if none is known.
func Add(parts ...*int64) *int64 {
	var out *int64
	for _, p := range parts {
		out = meter.Sum(out, p)
	}
	return out
}

// Arguments returns arguments that the model wrote as JSON: unchanged if they are an object,
// otherwise as a JSON string.
func Arguments(text string) json.RawMessage {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" {
		return json.RawMessage("{}")
	}
	if trimmed[0] == '{' && json.Valid([]byte(trimmed)) {
		return json.RawMessage(trimmed)
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		return json.RawMessage("{}") // cannot happen with a string
	}
	return quoted
}

// Set returns the body with a value at path. All other bytes stay as they are.
func Set(body []byte, path string, value any) ([]byte, error) {
	return sjson.SetBytes(body, path, value)
}

// SetAll sets the sampling that the model's configuration imposes, in prefix.
func SetAll(body []byte, prefix string, values map[string]any, names map[string]string) ([]byte, error) {
	var err error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		to := name
		if other, ok := names[name]; ok {
			to = other
		}
		if to == "" {
			continue
		}
		if body, err = Set(body, prefix+to, values[name]); err != nil {
			return nil, err
		}
	}
	return body, nil
}

// JSON returns v as JSON. v is made of maps, slices, texts and numbers, so this cannot fail.
func JSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		return []byte("{}")
	}
	return text
}

// FirstNumber returns the first count that exists at one of the paths.
func FirstNumber(v gjson.Result, paths ...string) *int64 {
	for _, path := range paths {
		if n := Number(v.Get(path)); n != nil {
			return n
		}
	}
	return nil
}

// Contradiction returns a description of how counts contradict each other, or "". total is nil or 0
// if it is not stated.
func Contradiction(u model.Usage, total *int64) string {
	input, output := meter.Value(u.Input), meter.Value(u.Output)
	switch {
	case u.Output != nil && meter.Value(u.Reasoning) > output:
		return fmt.Sprintf("%d tokens of output, %d of them reasoning", output, *u.Reasoning)
	case u.Input != nil && meter.Value(u.Cached) > input:
		return fmt.Sprintf("%d tokens of input, %d of them from a cache", input, *u.Cached)
	case meter.Value(total) > 0 && u.Input != nil && u.Output != nil && *total != input+output:
		return fmt.Sprintf("%d tokens in all, %d of input and %d of output", *total, input, output)
	}
	return ""
}

// Versionless returns a path without the version at its beginning, if it has one: base URLs differ
// in that.
func Versionless(path, version string) string {
	for strings.HasPrefix(path, "/"+version+"/") {
		path = path[len(version)+1:]
	}
	return path
}

// Copy returns the JSON of a value, or nil if it does not exist. It shares no memory with the
// request.
func Copy(v gjson.Result) json.RawMessage {
	if !v.Exists() {
		return nil
	}
	return bytes.Clone([]byte(v.Raw))
}
