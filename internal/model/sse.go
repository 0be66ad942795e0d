package model

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxEvent bounds one event of a stream. Real ones have some kilobytes; one with a whole file in a tool's arguments may have megabytes.
const maxEvent = 16 << 20

var errLongEvent = errors.New("an event of the stream is longer than 16 MiB")

// sseEvent is one server-sent event.
type sseEvent struct {
	raw  []byte // with the blank line that ends it; valid until the next read
	name string // the field event
	data []byte // the fields data, joined by newlines
}

// comment reports whether the event carries nothing.
func (e sseEvent) comment() bool { return e.name == "" && len(e.data) == 0 }

// sseReader splits a stream into events. Lines end with \n, \r\n or \r. Source: the HTML standard, section 9.2.
type sseReader struct {
	r    *bufio.Reader
	raw  []byte
	data []byte
}

func newSSEReader(r io.Reader) *sseReader { return &sseReader{r: bufio.NewReaderSize(r, 16<<10)} }

// next returns the next event. At the end of the stream it returns io.EOF; if the stream ends within an event, io.ErrUnexpectedEOF
// with what came of it in raw.
func (s *sseReader) next() (sseEvent, error) {
	s.raw, s.data = s.raw[:0], s.data[:0]
	var e sseEvent
	hasData := false
	for {
		line, err := s.line()
		if err != nil {
			if errors.Is(err, io.EOF) && len(s.raw) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return sseEvent{raw: s.raw}, err
		}
		if len(s.raw) > maxEvent {
			return sseEvent{}, errLongEvent
		}
		if len(line) == 0 {
			e.raw, e.data = s.raw, s.data
			return e, nil
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			e.name = string(value)
		case "data":
			if hasData {
				s.data = append(s.data, '\n')
			}
			s.data = append(s.data, value...)
			hasData = true
		}
	}
}

// line reads a line, appends it with its end to raw, and returns it without.
func (s *sseReader) line() ([]byte, error) {
	from := len(s.raw)
	for {
		c, err := s.r.ReadByte()
		if err != nil {
			return nil, err
		}
		s.raw = append(s.raw, c)
		if len(s.raw) > maxEvent {
			return nil, errLongEvent
		}
		switch c {
		case '\n':
			return s.raw[from : len(s.raw)-1], nil
		case '\r':
			at := len(s.raw) - 1
			// A \n that belongs to this line has come with it: writers write lines whole.
			if s.r.Buffered() > 0 {
				if following, err := s.r.Peek(1); err == nil && following[0] == '\n' {
					_, _ = s.r.ReadByte() // cannot fail: it was there
					s.raw = append(s.raw, '\n')
				}
			}
			return s.raw[from:at], nil
		}
	}
}
