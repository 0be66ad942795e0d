// Package longjson writes JSON objects with lists that are too long to be held as text.
package longjson

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// NewEncoder returns an encoder with indented lines, which begin with prefix.
func NewEncoder(w io.Writer, prefix string) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent(prefix, "  ")
	return enc
}

// List is a list in an object that is encoded element by element.
type List struct {
	Name string // of the object's member
	Len  int
	At   func(i int) any // an element
}

// ListOf returns a list of a slice.
func ListOf[T any](name string, list []T) List {
	return List{name, len(list), func(i int) any { return &list[i] }}
}

// Encode writes an object as NewEncoder does. Those of its lists that have elements are empty in
// short, and lists has them in the order of its members.
func Encode(w io.Writer, short any, lists []List) error {
	var text bytes.Buffer
	if err := NewEncoder(&text, "").Encode(short); err != nil {
		return err
	}
	rest := text.Bytes()
	out := bufio.NewWriterSize(w, 1<<16)
	const prefix = "    "
	var line bytes.Buffer
	enc := NewEncoder(&line, prefix)
	for _, l := range lists { // out keeps its first error for Flush
		if l.Len == 0 {
			continue
		}
		// Texts have no line breaks, so no text looks like this, and members of members are
		// indented further.
		empty := []byte("\n  \"" + l.Name + "\": []")
		before, after, found := bytes.Cut(rest, empty)
		if !found {
			return fmt.Errorf("encode %s: there is no such list", l.Name)
		}
		rest = after
		_, _ = out.Write(before)
		_, _ = out.Write(empty[:len(empty)-1])
		for i := range l.Len {
			line.Reset()
			if err := enc.Encode(l.At(i)); err != nil {
				return err
			}
			if i > 0 {
				_ = out.WriteByte(',')
			}
			_, _ = out.WriteString("\n" + prefix)
			if _, err := out.Write(bytes.TrimSuffix(line.Bytes(), []byte("\n"))); err != nil {
				return err
			}
		}
		_, _ = out.WriteString("\n  ]")
	}
	_, _ = out.Write(rest)
	return out.Flush()
}
