package sse

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime"
	"strings"
)

// maxEvent bounds the events that are held in memory. Real ones have some kilobytes; one with a
// picture or a whole file in a tool's arguments may have some megabytes.
const maxEvent = 64 << 20

// IsStream reports whether a Content-Type is that of events. It ignores case.
func IsStream(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil { // of its parameters: clients look at the name alone
		kind, _, _ = strings.Cut(contentType, ";")
	}
	return strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
}

// Event is one server-sent event, or a piece of a long one.
type Event struct {
	Raw  []byte // as it came, with the blank line that ends it if there is one
	Name string // the field event
	Data []byte // the fields data, joined by newlines
	// Long: the event is too long for memory, so it comes in pieces without Data. The last one is
	// not Partial.
	Long, Partial bool
	// Comment: there are only comments and blank lines.
	Comment bool
}

// Reader splits a stream into events, so that the Raw of all of them together is the stream. Lines
// end with \n, \r\n or \r. Source: the HTML standard, section 9.2.
type Reader struct {
	r     *bufio.Reader
	max   int
	begun bool // something was read
	cr    bool // lines end with \r alone
	raw   []byte
	data  []byte
	name  string
	long  bool // the event is
	some  bool // a field was read of it
	// inside: raw begins within a line.
	inside bool
}

// NewReader returns a Reader of r.
func NewReader(r io.Reader) *Reader { return &Reader{r: bufio.NewReaderSize(r, 16<<10), max: maxEvent} }

// Next returns the next event, which shares no memory with others. At the end of the stream it
// returns io.EOF, with the last event if it lacks the blank line at its end: clients differ in
// whether they accept it. If reading fails, it returns the error with the partial event.
func (s *Reader) Next() (Event, error) {
	hasData := false
	for {
		line, ended, err := s.line()
		if err == nil && !ended { // too long for memory
			s.long = true
			return s.piece(true), nil
		}
		if ended && len(line) == 0 && !s.inside {
			return s.piece(false), nil
		}
		if !s.inside {
			s.field(line, &hasData)
		}
		s.inside = false
		if err != nil {
			return s.piece(false), err
		}
	}
}

// piece returns the part of the event that was read.
func (s *Reader) piece(partial bool) Event {
	e := Event{Raw: s.raw, Name: s.name, Data: s.data, Long: s.long, Partial: partial, Comment: !s.some && !s.long}
	s.raw, s.data, s.inside = nil, nil, partial
	if e.Long {
		e.Data = nil
	}
	if !partial {
		s.name, s.long, s.some = "", false, false
	}
	return e
}

// field reads a line of an event.
func (s *Reader) field(line []byte, hasData *bool) {
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	s.some = s.some || len(field) > 0
	switch string(field) {
	case "event":
		s.name = string(value)
	case "data":
		if s.long {
			return
		}
		if *hasData {
			s.data = append(s.data, '\n')
		}
		s.data = append(s.data, value...)
		*hasData = true
	}
}

var bom = []byte("\xEF\xBB\xBF")

// line reads a line, appends it with its end to raw, and returns it without. ended: its end came;
// if not and without an error, the event is long.
func (s *Reader) line() (line []byte, ended bool, err error) {
	from := len(s.raw)
	if !s.begun {
		s.begun = true
		if begin, _ := s.r.Peek(len(bom)); bytes.Equal(begin, bom) { // the next read returns an error again
			s.raw, from = append(s.raw, bom...), len(bom)
			_, _ = s.r.Discard(len(bom)) // as above
		}
	}
	for {
		if len(s.raw) >= s.max {
			return nil, false, nil
		}
		c, err := s.r.ReadByte()
		if err != nil {
			return s.raw[from:], false, err
		}
		s.raw = append(s.raw, c)
		switch c {
		case '\n':
			return s.raw[from : len(s.raw)-1], true, nil
		case '\r':
			at := len(s.raw) - 1
			if s.cr {
				return s.raw[from:at], true, nil
			}
			// The \n that belongs to this line may come later: the network divides streams
			// anywhere.
			switch next, err := s.r.Peek(1); {
			case err == nil && next[0] == '\n':
				_, _ = s.r.Discard(1) // it is there
				s.raw = append(s.raw, '\n')
			case err == nil:
				s.cr = true
			case !errors.Is(err, io.EOF):
				return s.raw[from:at], false, err
			}
			return s.raw[from:at], true, nil
		}
	}
}
