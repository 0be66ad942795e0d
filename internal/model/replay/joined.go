package replay

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/org/rollout-action/internal/model/inspect"
	"github.com/org/rollout-action/internal/model/sse"
)

// hideJoined returns the body of an answer without secrets that are spread over several events or
// parts. hide removes secrets from a text; secrets within a single text are left to the caller.
// Only texts with a part of a secret change: the replacement is in the text where the secret
// begins.
func hideJoined(contentType string, body []byte, hide func([]byte) []byte) []byte {
	j := &joiner{texts: map[string]*joined{}}
	events := []sse.Event{{Raw: body, Data: body}}
	if sse.IsStream(contentType) {
		events = events[:0]
		for r := sse.NewReader(bytes.NewReader(body)); ; {
			e, err := r.Next()
			events = append(events, e)
			if err != nil {
				break
			}
		}
	}
	for i, e := range events {
		if inspect.Valid(e.Data) {
			j.walk(i, gjson.ParseBytes(e.Data), "", "", 0)
		}
	}
	edits := map[int][]edit{}
	for _, one := range j.texts {
		one.hide(hide, edits)
	}
	if len(edits) == 0 {
		return body
	}
	var out bytes.Buffer
	for i, e := range events {
		if len(edits[i]) == 0 {
			out.Write(e.Raw)
			continue
		}
		data := applied(e.Data, edits[i])
		if bytes.Count(e.Raw, e.Data) == 1 {
			out.Write(bytes.Replace(e.Raw, e.Data, data, 1))
			continue
		}
		if e.Name != "" { // the data is on several lines
			out.WriteString("event: " + e.Name + "\n")
		}
		out.WriteString("data: ")
		out.Write(bytes.ReplaceAll(data, []byte("\n"), []byte("\ndata: ")))
		out.WriteString("\n\n")
	}
	return out.Bytes()
}

// joiner collects the texts that clients join.
type joiner struct{ texts map[string]*joined }

// joined is a text with the places of its pieces.
type joined struct {
	text   []byte
	pieces []piecePlace
}

// piecePlace is a string in the data of an event.
type piecePlace struct {
	event, at, end int // of the JSON with its quotation marks
	from, to       int // of the text in the joined one
}

// edit replaces JSON in the data of an event.
type edit struct {
	at, end int
	by      []byte
}

// maxDepth bounds the depth of JSON that is searched. Protocols have at most ten levels, except in
// arguments, which come whole.
const maxDepth = 100

// unjoined are fields with the same value in each event, which clients do not join.
var unjoined = map[string]bool{
	"type": true, "object": true, "id": true, "model": true, "role": true, "finish_reason": true, "stop_reason": true, "finishReason": true, "item_id": true,
	"response_id": true, "call_id": true, "created_at": true, "system_fingerprint": true, "responseId": true, "modelVersion": true, "obfuscation": true,
}

// walk adds the strings of a value. of identifies the value's block: strings with the same name in
// the same block are joined.
func (j *joiner) walk(event int, v gjson.Result, name, of string, depth int) {
	switch {
	case depth > maxDepth || unjoined[name]:
	case v.Type == gjson.String:
		key := of + "\x00" + name
		one := j.texts[key]
		if one == nil {
			one = &joined{}
			j.texts[key] = one
		}
		from := len(one.text)
		one.text = append(one.text, v.Str...)
		one.pieces = append(one.pieces, piecePlace{event, v.Index, v.Index + len(v.Raw), from, len(one.text)})
	case v.IsObject():
		for _, field := range []string{"output_index", "content_index", "summary_index", "index"} {
			if n := v.Get(field); n.Type == gjson.Number {
				of += "/" + field[:1] + n.Raw
			}
		}
		if v.Get("thought").Bool() {
			of += "/thought"
		}
		v.ForEach(func(key, inner gjson.Result) bool {
			j.walk(event, inner, key.Str, of, depth+1)
			return true
		})
	case v.IsArray():
		n := 0
		v.ForEach(func(_, inner gjson.Result) bool {
			at := of
			if depth > 0 && name != "parts" && !inner.Get("index").Exists() { // pieces of Google are elements of arrays
				at += "/" + strconv.Itoa(n)
			}
			n++
			j.walk(event, inner, name, at, depth+1)
			return true
		})
	}
}

// hide adds the edits that remove secrets from a text in several pieces.
func (o *joined) hide(hide func([]byte) []byte, edits map[int][]edit) {
	if len(o.pieces) < 2 {
		return
	}
	safe := hide(o.text)
	if bytes.Equal(safe, o.text) {
		return
	}
	from, to := 0, len(o.text)
	for from < min(len(safe), len(o.text)) && safe[from] == o.text[from] {
		from++
	}
	end := len(safe)
	for end > from && to > from && safe[end-1] == o.text[to-1] {
		end, to = end-1, to-1
	}
	replaced := safe[from:end]
	for _, p := range o.pieces {
		if p.to <= from || p.from >= to {
			continue
		}
		text := bytes.Clone(o.text[p.from:max(p.from, from)])
		text = append(text, replaced...)
		replaced = nil // once
		text = append(text, o.text[min(p.to, to):p.to]...)
		edits[p.event] = append(edits[p.event], edit{p.at, p.end, quoted(string(text))})
	}
}

// applied returns data with edits, which do not overlap.
func applied(data []byte, edits []edit) []byte {
	slices.SortFunc(edits, func(a, b edit) int { return a.at - b.at })
	var out []byte
	done := 0
	for _, e := range edits {
		out = append(append(out, data[done:e.at]...), e.by...)
		done = e.end
	}
	return append(out, data[done:]...)
}

// quoted returns a text as JSON.
func quoted(text string) []byte {
	out, _ := json.Marshal(text) // a text can be written
	return out
}
