package trajectory

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/org/rollout-action/internal/lib/bounded"
	"github.com/org/rollout-action/internal/model"
)

// lines reads a record line by line. It holds one value of a line at a time.
type lines struct {
	r     *bufio.Reader
	at    int64 // the offset of the next byte to read
	end   int64 // that of the end of the line before it
	ended bool  // the line
	left  int   // bytes that may be read before the next value
}

// Read reads from the current line, without its end.
func (l *lines) Read(p []byte) (int, error) {
	switch {
	case l.ended:
		return 0, io.EOF
	case l.left <= 0:
		return 0, tooLong(fmt.Sprintf("a message of the record has more than %d MiB", maxValue>>20))
	}
	if _, err := l.r.Peek(1); err != nil {
		return 0, err
	}
	chunk, _ := l.r.Peek(min(len(p), l.r.Buffered()))
	n := len(chunk)
	if end := bytes.IndexByte(chunk, '\n'); end >= 0 {
		n, l.ended = end, true
	}
	copy(p, chunk[:n])
	l.left -= n
	l.at += int64(n)
	if _, err := l.r.Discard(n); err != nil {
		return n, err
	}
	if l.ended {
		l.end = l.at
		l.at++
		_, err := l.r.Discard(1)
		return n, err
	}
	return n, nil
}

// line is a line of a record without its texts.
type line struct {
	turn     model.RecordedTurn // without messages and tools
	messages []*message
	tools    span // nil: there are none
	kept     int  // bytes of the decoded turn
	size     int64
	tokens   int64 // bytes of size that are the ids of tokens
}

// next reads a line; nil if it cannot be decoded. The error is io.EOF at the end.
func (l *lines) next() (*line, error) {
	if _, err := l.r.Peek(1); err != nil {
		return nil, err
	}
	l.ended, l.left = false, maxValue
	from := l.at
	out, err := l.decode(from)
	if errors.Is(err, ErrTooLong) {
		return nil, err
	}
	for scratch := make([]byte, 4<<10); !l.ended; { // the rest of the line after an error
		l.left = maxValue
		switch _, err := l.Read(scratch); {
		case errors.Is(err, io.EOF):
			l.ended, l.end = true, l.at
		case err != nil:
			return nil, err
		}
	}
	if err != nil {
		return nil, nil //nolint:nilerr // it is the line that is broken
	}
	out.size = l.end - from
	return out, nil
}

var errNoObject = errors.New("it is no JSON object")

// decode decodes a line that begins at an offset of the record.
func (l *lines) decode(from int64) (*line, error) {
	out := &line{}
	d := json.NewDecoder(l)
	first, err := d.Token()
	if err != nil {
		return nil, err
	}
	if first != json.Delim('{') {
		if first != nil {
			return nil, errNoObject
		}
		return out, end(d)
	}
	rest := []byte("{")
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := key.(string)
		l.left = maxValue
		switch strings.ToLower(name) {
		case "messages":
			err = out.readMessages(l, d, from)
		case "tools":
			var raw json.RawMessage
			var tools []model.Tool
			if err = d.Decode(&raw); err == nil {
				err = bounded.Unmarshal(raw, &tools)
			}
			if len(tools) > 0 {
				end := from + d.InputOffset()
				out.tools = span{end - int64(len(raw)), len(raw)}
			}
		default:
			var raw json.RawMessage
			if err = d.Decode(&raw); err != nil {
				break
			}
			if len(rest) > 1 {
				rest = append(rest, ',')
			}
			quoted, _ := json.Marshal(name) // a string can be encoded
			rest = append(append(append(rest, quoted...), ':'), raw...)
			if name == "tokens" {
				out.tokens += int64(len(`,"tokens":`) + len(raw))
			}
		}
		if err != nil {
			return nil, err
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if err := end(d); err != nil {
		return nil, err
	}
	out.kept = len(rest) - int(out.tokens)
	return out, bounded.Unmarshal(append(rest, '}'), &out.turn)
}

// end returns an error if the decoder has more data.
func end(d *json.Decoder) error {
	switch _, err := d.Token(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return errNoObject
}

func (out *line) readMessages(l *lines, d *json.Decoder, from int64) error {
	switch first, err := d.Token(); {
	case err != nil:
		return err
	case first == nil:
		return nil
	case first != json.Delim('['):
		return errNoObject
	}
	for needs := 0; d.More(); {
		if needs > maxIndex {
			return tooLong(fmt.Sprintf("a call of the record has too many messages: more than %d MiB of memory", maxIndex>>20))
		}
		l.left = maxValue
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return err
		}
		var m model.RecordedMessage
		if err := bounded.Unmarshal(raw, &m); err != nil {
			return err
		}
		end := from + d.InputOffset()
		one := newMessage(m, span{end - int64(len(raw)), len(raw)})
		needs += one.needs()
		out.messages = append(out.messages, one)
	}
	_, err := d.Token()
	return err
}
