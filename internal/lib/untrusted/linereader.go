package untrusted

import (
	"bufio"
	"errors"
	"io"
)

// LineReader reads the lines of a file that may be hostile, with bounded memory. It does not make
// them safe to show.
type LineReader struct {
	in   *bufio.Reader
	max  int
	long []byte // of lines that the reader's buffer does not hold
}

// NewLineReader returns a reader of lines of at most maxBytes bytes.
func NewLineReader(r io.Reader, maxBytes int) *LineReader {
	return &LineReader{in: bufio.NewReaderSize(r, 1<<16), max: maxBytes}
}

// Next returns the next line with its line break, valid until the next call. Of a line that is too
// long it returns the first part, which is longer than the maximum. At the end it returns the text
// after the last line break, and io.EOF.
func (r *LineReader) Next() ([]byte, error) {
	line, err := r.in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	r.long = r.long[:0]
	for errors.Is(err, bufio.ErrBufferFull) {
		if len(r.long) <= r.max {
			r.long = append(r.long, line...)
		}
		line, err = r.in.ReadSlice('\n')
	}
	r.long = append(r.long, line...)
	return r.long, err
}
