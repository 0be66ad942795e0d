package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/org/rollout-action/internal/model/meter"
)

// number returns a count, or nil if it is missing or not a count.
func number(v gjson.Result) *int64 {
	if v.Type != gjson.Number || v.Num < 0 || v.Num > 1<<52 {
		return nil
	}
	return new(int64(v.Num))
}

// dollars returns an amount, or nil.
func dollars(v gjson.Result) *float64 {
	if v.Type != gjson.Number || v.Num < 0 || v.Num > 1e6 {
		return nil
	}
	return new(v.Num)
}

// addAll returns the sum of the known counts, or nil if none is known.
func addAll(parts ...*int64) *int64 {
	var out *int64
	for _, p := range parts {
		out = meter.Sum(out, p)
	}
	return out
}

// raw returns arguments that the model wrote as JSON: unchanged if they are an object, otherwise as
// a JSON string.
func raw(text string) json.RawMessage {
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

// set returns the body with a value at path. All other bytes stay as they are.
func set(body []byte, path string, value any) ([]byte, error) {
	return sjson.SetBytes(body, path, value)
}

// setAll sets the sampling that the model's configuration imposes, in prefix.
func setAll(body []byte, prefix string, values map[string]any, names map[string]string) ([]byte, error) {
	var err error
	for _, name := range sortedKeys(values) {
		to := name
		if other, ok := names[name]; ok {
			to = other
		}
		if to == "" {
			continue
		}
		if body, err = set(body, prefix+to, values[name]); err != nil {
			return nil, err
		}
	}
	return body, nil
}

// encoded returns v as JSON. v is made of maps, slices, texts and numbers, so this cannot fail.
func encoded(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		return []byte("{}")
	}
	return text
}

// deletePath returns the body without the value at path.
func deletePath(body []byte, path string) ([]byte, error) { return sjson.DeleteBytes(body, path) }

// setRaw returns the body with JSON at path.
func setRaw(body []byte, path string, value []byte) ([]byte, error) {
	return sjson.SetRawBytes(body, path, value)
}

// upload is the body of a request to the provider, which may be sent repeatedly until it is
// dropped: connections and answers refer to their requests long after these were sent.
type upload struct{ text atomic.Pointer[[]byte] }

func newUpload(text []byte) *upload {
	u := &upload{}
	u.text.Store(&text)
	return u
}

// body returns a reader that refers to the text until it is read to its end or closed.
func (u *upload) body() (io.ReadCloser, error) {
	text := u.text.Load()
	if text == nil {
		return nil, errDropped
	}
	return &sending{from: bytes.NewReader(*text)}, nil
}

// drop ends the reference to the text. Existing readers are not affected.
func (u *upload) drop() { u.text.Store(nil) }

var errDropped = errors.New("the request was answered")

// sending is a reader of an upload.
type sending struct {
	mu   sync.Mutex // a connection may call Close during a Read
	from *bytes.Reader
}

func (s *sending) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.from == nil {
		return 0, io.EOF
	}
	n, err := s.from.Read(p)
	if err != nil {
		s.from = nil
	}
	return n, err
}

// Close implements io.Closer.
func (s *sending) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.from = nil
	return nil
}

// newBody returns a body that is in memory.
func newBody(text []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(text)) }
