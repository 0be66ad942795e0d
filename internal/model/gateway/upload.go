package gateway

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

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
