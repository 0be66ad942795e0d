package bounded

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// ErrUnusual is the error of ReadObject for text that Unmarshal may nevertheless accept.
var ErrUnusual = errors.New("it is no object with these members")

// maxRest bounds the members that ReadObject returns, in bytes.
const maxRest = 64 << 20

// ReadObject reads an object with a list that is too long to be held as text. each decodes the next
// element of the list by the rules of Unmarshal, and reads on. rest is the object with an empty
// list. The elements together have bounded memory.
//
// It is stricter than Unmarshal, whose errors say more: callers repeat with that after any error.
// Names that Unmarshal would take for the same are an error, and so is text after the object.
func ReadObject(r io.Reader, list string, each func(decode func(into any) error) error) (rest []byte, err error) {
	d := jsontext.NewDecoder(r, jsonv1.DefaultOptionsV1())
	m, _ := meters.Get().(*meter)
	defer meters.Put(m)
	m.begin(0)
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return nil, errors.Join(ErrUnusual, err)
	}
	found := false
	out := bytes.NewBufferString("{")
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		text := name.String()
		if alike(text, list) {
			if found || text != list {
				return nil, ErrUnusual
			}
			found = true
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		quoted, err := jsontext.AppendQuote(nil, text)
		if err != nil {
			return nil, err
		}
		out.Write(append(quoted, ':'))
		if text == list && d.PeekKind() == '[' {
			out.WriteString("[]")
			err = readList(d, m, each)
		} else {
			var value jsontext.Value
			if value, err = d.ReadValue(); err == nil {
				_, err = out.Write(value)
			}
		}
		if err == nil && out.Len() > maxRest {
			err = ErrUnusual
		}
		if err != nil {
			return nil, err
		}
	}
	if _, err := d.ReadToken(); err != nil { // the end of the object
		return nil, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.Join(ErrUnusual, err)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// List decodes a list for the UnmarshalJSONFrom method of a type, and calls each with its elements,
// one after the other. list is false for null. Where Unmarshal or a Decoder has called the method,
// they bound the memory of the elements.
func List[T any](d *jsontext.Decoder, each func(*T)) (list bool, err error) {
	if d.PeekKind() != '[' {
		return false, json.UnmarshalDecode(d, new([]T))
	}
	if _, err := d.ReadToken(); err != nil {
		return true, err
	}
	element := new(T)
	for kind := d.PeekKind(); kind != ']' && kind != 0; kind = d.PeekKind() {
		*element = *new(T)
		if err := json.UnmarshalDecode(d, element); err != nil {
			return true, err
		}
		each(element)
	}
	_, err = d.ReadToken()
	return true, err
}

// alike reports whether Unmarshal may take two names for the same.
func alike(a, b string) bool {
	plain := func(s string) string { return strings.NewReplacer("_", "", "-", "").Replace(s) }
	return strings.EqualFold(plain(a), plain(b))
}

// readList reads a list, whose beginning is next.
func readList(d *jsontext.Decoder, m *meter, each func(decode func(into any) error) error) error {
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	decoded := false
	decode := func(into any) error {
		decoded = true
		return m.end(json.UnmarshalDecode(d, into, m.option))
	}
	for kind := d.PeekKind(); kind != ']' && kind != 0; kind = d.PeekKind() {
		decoded = false
		if err := each(decode); err != nil {
			return err
		}
		if !decoded {
			return errors.New("an element was not decoded")
		}
	}
	_, err := d.ReadToken()
	return err
}
