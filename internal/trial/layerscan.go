package trial

import (
	"archive/tar"
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

// secretFound says that a layer is not kept because of a file in it. The file's name is as it is: to be hidden.
type secretFound struct{ file string }

func (e *secretFound) Error() string {
	return fmt.Sprintf("%s holds the value of a variable of the host: let the script not write it, or, if it is no secret, name the variable in redact.except", e.file)
}

// layerScan looks for secrets in what an install script has left: in contents, names, targets of links and extended
// attributes. What is compressed or encrypted it cannot read.
type layerScan struct {
	secrets *redact.Redactor
	files   int
	bytes   int64
}

// look is environment.SnapshotOptions.Inspect.
func (s *layerScan) look(file *tar.Header, content io.Reader) error {
	s.files++
	s.bytes += max(0, file.Size)
	if s.files > maxLayerFiles || s.bytes > maxLayerBytes {
		return fmt.Errorf("it has left more than can be looked through for secrets (%d files, or %d GiB)", maxLayerFiles, maxLayerBytes>>30)
	}
	around := []string{file.Name, file.Linkname}
	for name, value := range file.PAXRecords {
		around = append(around, name, value)
	}
	found, err := s.secrets.In(strings.NewReader(strings.Join(around, "\n\n"))) // no secret goes over two line breaks
	if err == nil && !found {
		found, err = s.secrets.In(content)
	}
	switch {
	case err != nil:
		return fmt.Errorf("look through %s for secrets: %w", s.secrets.String(file.Name), err)
	case found:
		return &secretFound{file.Name}
	}
	return nil
}
