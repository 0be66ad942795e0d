package sse

import (
	"bytes"
	"errors"
	"io"

	"github.com/org/rollout-action/internal/model/inspect"
)

// IsDone reports whether an event's data is the end mark of OpenAI's streams, the only data that is
// not JSON.
func IsDone(data []byte) bool { return bytes.Equal(bytes.TrimSpace(data), []byte("[DONE]")) }

// NextTaken returns the next event that clients take. The last one counts also without the blank
// line that ends it, if its data is whole; if not, the error is io.ErrUnexpectedEOF.
func (s *Reader) NextTaken() (Event, error) {
	e, err := s.Next()
	if errors.Is(err, io.EOF) && len(e.Data) > 0 {
		err = io.ErrUnexpectedEOF
		if inspect.Valid(e.Data) || IsDone(e.Data) {
			err = nil
		}
	}
	return e, err
}

// DataReader reads the data of events.
type DataReader struct{ from *Reader }

// NewDataReader returns a reader of the events in r.
func NewDataReader(r io.Reader) *DataReader { return &DataReader{NewReader(r)} }

// errLong is the error of a DataReader for an event that is too long for memory.
var errLong = errors.New("an event of the stream is longer than 64 MiB")

// Next returns the data of the next event with data. At the end of the stream it returns io.EOF,
// within an event io.ErrUnexpectedEOF. The last event needs no blank line. Events may be up to 64
// MiB long.
func (r *DataReader) Next() ([]byte, error) {
	for {
		e, err := r.from.NextTaken()
		switch {
		case err != nil:
			return nil, err
		case e.Long:
			return nil, errLong
		case len(e.Data) > 0:
			return e.Data, nil
		}
	}
}
