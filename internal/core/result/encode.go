package result

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Encode writes v to w in the format of Marshal. The long lists of a job and of a plan are encoded
// element by element, so they are never in memory as text.
func Encode(w io.Writer, v any) error {
	switch v := v.(type) {
	case Job:
		results := v.Results
		lists := []longList{{"results", results.Len(), func(i int) any { return results.At(i) }}, listOf("skipped", v.Skipped)}
		if results.Len() > 0 {
			v.Results = OutcomesOf()
		}
		if len(v.Skipped) > 0 {
			v.Skipped = []Key{}
		}
		return encodeLong(w, v, lists)
	case Plan:
		lists := []longList{listOf("tasks", v.Tasks), listOf("trials", v.Trials)}
		if len(v.Tasks) > 0 {
			v.Tasks = []PlannedTask{}
		}
		if len(v.Trials) > 0 {
			v.Trials = []Key{}
		}
		return encodeLong(w, v, lists)
	}
	return encoder(w, "").Encode(v)
}

// encoder returns an encoder of the values of result files, whose lines begin with prefix.
func encoder(w io.Writer, prefix string) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent(prefix, "  ")
	return enc
}

// longList is a list in an object that is encoded element by element.
type longList struct {
	name string // of the object's member
	n    int
	at   func(i int) any
}

func listOf[T any](name string, list []T) longList {
	return longList{name, len(list), func(i int) any { return &list[i] }}
}

// encodeLong writes an object whose lists with elements are empty in short, in the order of its
// members.
func encodeLong(w io.Writer, short any, lists []longList) error {
	var text bytes.Buffer
	if err := encoder(&text, "").Encode(short); err != nil {
		return err
	}
	rest := text.Bytes()
	out := bufio.NewWriterSize(w, 1<<16)
	const prefix = "    "
	var line bytes.Buffer
	enc := encoder(&line, prefix)
	for _, l := range lists { // out keeps its first error for Flush
		if l.n == 0 {
			continue
		}
		// Texts have no line breaks, so no text looks like this, and members of members are
		// indented further.
		empty := []byte("\n  \"" + l.name + "\": []")
		before, after, found := bytes.Cut(rest, empty)
		if !found {
			return fmt.Errorf("encode %s: there is no such list", l.name)
		}
		rest = after
		_, _ = out.Write(before)
		_, _ = out.Write(empty[:len(empty)-1])
		for i := range l.n {
			line.Reset()
			if err := enc.Encode(l.at(i)); err != nil {
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
