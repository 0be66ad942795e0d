package trial

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

	"github.com/org/rollout-action/internal/redact"
)

// The most that is looked through for secrets. Source: our own; an agent with all that it needs is a tenth of it.
const (
	maxLayerFiles = 500_000
	maxLayerBytes = 8 << 30
)

// secretError says that a layer is not kept because of a file in it. The file's name is as it is: to be hidden.
type secretError struct{ file string }

func (e *secretError) Error() string {
	return fmt.Sprintf("%s holds the value of a variable of the host: let the script not write it, or, if it is no secret, name the variable in redact.except", e.file)
}

// layerScan looks for secrets in what an install script has left: in contents, names, targets of links and extended
// attributes, and in what gzip has compressed, of which caches of package managers are made. What is compressed otherwise, or
// encrypted, it cannot read.
type layerScan struct {
	secrets *redact.Redactor
	files   int
	bytes   int64
}

var errTooLarge = fmt.Errorf("it has left more than can be looked through for secrets (%d files, or %d GiB)", maxLayerFiles, maxLayerBytes>>30)

// inspect is environment.SnapshotOptions.Inspect.
func (s *layerScan) inspect(file *tar.Header, content io.Reader) error {
	s.files++
	s.bytes += max(0, file.Size)
	if s.files > maxLayerFiles || s.bytes > maxLayerBytes {
		return errTooLarge
	}
	around := []string{file.Name, file.Linkname}
	for name, value := range file.PAXRecords {
		around = append(around, name, value)
	}
	found, err := s.secrets.In(strings.NewReader(strings.Join(around, "\n\n"))) // no secret goes over two line breaks
	if err == nil && !found {
		found, err = s.contains(content)
	}
	switch {
	case errors.Is(err, errTooLarge):
		return err
	case err != nil:
		return fmt.Errorf("look through %s for secrets: %w", s.secrets.String(file.Name), err)
	case found:
		return &secretError{file.Name}
	}
	return nil
}

// contains reports whether there is a secret in a file, as it stands or compressed with gzip.
func (s *layerScan) contains(content io.Reader) (bool, error) {
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
		_, _ = io.Copy(io.Discard, r) // what does not interest must not hold up the other
	}()
	plain, plainErr := s.secrets.In(io.TeeReader(file, w))
	w.Close()
	<-done
	return plain || hidden, cmp.Or(plainErr, err)
}

// inGzip reports whether there is a secret in the content of a gzip file. Where it is no such thing, it looks no further.
func (s *layerScan) inGzip(packed io.Reader) (bool, error) {
	zipped, err := gzip.NewReader(packed)
	if err != nil {
		return false, nil //nolint:nilerr // it only began like one
	}
	text := &gzipReader{from: zipped, left: maxLayerBytes - s.bytes}
	found, err := s.secrets.In(text)
	s.bytes += text.size
	return found, err
}

// gzipReader reads what gzip unpacks, up to where it is damaged, which is its end.
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
