package layer

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/org/rollout-action/internal/lib/redact"
)

// Limits of the search for secrets. Source: our own measurement; an agent with everything that it
// needs is a tenth of it.
const (
	maxFiles = 500_000
	maxBytes = 8 << 30
)

// secretError reports a file that holds a secret. The file's name is not redacted.
type secretError struct{ file string }

func (e *secretError) Error() string {
	return fmt.Sprintf("%s holds the value of a variable of the host: change the script so that it does not write it, or, if it is no secret, name the variable in redact.except", e.file)
}

// Scan searches the files of one layer for secrets: their contents, names, extended attributes and
// the targets of links. It also searches the content of gzip files, because the caches of package
// managers consist of them. It cannot read content with other compression or encryption.
type Scan struct {
	secrets *redact.Redactor
	files   int
	bytes   int64
}

// NewScan returns a Scan for the secrets that a redactor knows.
func NewScan(secrets *redact.Redactor) *Scan { return &Scan{secrets: secrets} }

var errTooLarge = fmt.Errorf("the install script left more than can be searched for secrets (%d files, or %d GiB)", maxFiles, maxBytes>>30)

// Inspect returns an error if a file holds a secret, or if the layer is too large to be searched.
// It is an environment.SnapshotOptions.Inspect.
func (s *Scan) Inspect(file *tar.Header, content io.Reader) error {
	s.files++
	s.bytes += max(0, file.Size)
	if s.files > maxFiles || s.bytes > maxBytes {
		return errTooLarge
	}
	metadata := []string{file.Name, file.Linkname}
	for name, value := range file.PAXRecords {
		metadata = append(metadata, name, value)
	}
	found, err := s.secrets.In(strings.NewReader(strings.Join(metadata, "\n\n"))) // no secret spans two line breaks
	if err == nil && !found {
		found, err = s.contains(content)
	}
	switch {
	case errors.Is(err, errTooLarge):
		return err
	case err != nil:
		return fmt.Errorf("search %s for secrets: %w", s.secrets.String(file.Name), err)
	case found:
		return &secretError{file.Name}
	}
	return nil
}

// contains reports whether a file holds a secret, plain or compressed with gzip.
func (s *Scan) contains(content io.Reader) (bool, error) {
	file := bufio.NewReader(content)
	if magic, _ := file.Peek(2); !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return s.secrets.In(file)
	}
	r, w := io.Pipe()
	var hidden bool
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		hidden, err = s.inGzip(r)
		_, _ = io.Copy(io.Discard, r) // so that the writer is never blocked
	}()
	plain, plainErr := s.secrets.In(io.TeeReader(file, w))
	w.Close()
	<-done
	return plain || hidden, cmp.Or(plainErr, err)
}

// inGzip reports whether a gzip file contains a secret. It reports false for other files.
func (s *Scan) inGzip(packed io.Reader) (bool, error) {
	zipped, err := gzip.NewReader(packed)
	if err != nil {
		return false, nil //nolint:nilerr // it only begins like a gzip file
	}
	text := &gzipReader{from: zipped, left: maxBytes - s.bytes}
	found, err := s.secrets.In(text)
	s.bytes += text.size
	return found, err
}

// gzipReader reads the content of a gzip file. It ends where the file is damaged, and fails after
// left bytes.
type gzipReader struct {
	from       io.Reader
	size, left int64
}

func (t *gzipReader) Read(p []byte) (int, error) {
	n, err := t.from.Read(p)
	t.size += int64(n)
	switch {
	case t.size > t.left:
		return n, errTooLarge
	case err != nil:
		return n, io.EOF
	}
	return n, nil
}
