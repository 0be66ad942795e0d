package registryimage

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"

	"github.com/org/rollout-action/internal/lib/ctxio"
)

// FileLayer returns a layer with one file, which belongs to root. name is absolute; the directories
// above it are 0755. open is called once for each Open of the layer; the content must have the
// size.
func FileLayer(name string, mode fs.FileMode, size int64, open func() (io.ReadCloser, error)) Layer {
	return Layer{Open: func(context.Context) (io.ReadCloser, error) {
		from, err := open()
		if err != nil {
			return nil, err
		}
		r, w := io.Pipe()
		go func() {
			defer from.Close()
			w.CloseWithError(writeFile(w, name, mode, size, from))
		}()
		return r, nil
	}}
}

// writeFile writes the tar archive of FileLayer, with one file.
func writeFile(w io.Writer, name string, mode fs.FileMode, size int64, from io.Reader) error {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	archive := tar.NewWriter(w)
	for at, c := range name {
		if c != '/' {
			continue
		}
		dir := &tar.Header{Typeflag: tar.TypeDir, Name: name[:at] + "/", Mode: 0o755, Format: tar.FormatPAX}
		if err := archive.WriteHeader(dir); err != nil {
			return err
		}
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(mode.Perm()), Size: size, Format: tar.FormatPAX}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	if n, err := io.Copy(archive, from); err != nil || n != size {
		return errors.Join(err, sizeError(name, n, size))
	}
	return archive.Close()
}

func sizeError(name string, n, size int64) error {
	if n == size {
		return nil
	}
	return fmt.Errorf("%s has %d bytes, not %d", name, n, size)
}

// spooled is a compressed layer in a file. It implements v1.Layer.
type spooled struct {
	file           *os.File
	digest, diffID v1.Hash
	size           int64
	media          types.MediaType
}

// spool reads a layer once and keeps it compressed in a file that no name leads to: uploads may
// have to be repeated, and need the digest first.
func spool(ctx context.Context, l Layer, media types.MediaType) (*spooled, error) {
	from, err := l.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	file, err := spoolFile()
	if err != nil {
		return nil, err
	}
	s := &spooled{file: file, media: media}
	if err := s.fill(ctx, from); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// spoolFile creates a file for something large. It is not below /tmp if that can be helped, which
// may be in memory.
func spoolFile() (*os.File, error) {
	dir, err := os.UserCacheDir()
	if err == nil {
		dir = filepath.Join(dir, "rollout", "layers")
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		dir = ""
	}
	file, err := os.CreateTemp(dir, "layer-*.tar.gz")
	if err != nil && dir != "" {
		file, err = os.CreateTemp("", "layer-*.tar.gz")
	}
	if err == nil {
		_ = os.Remove(file.Name()) // on systems that cannot remove an open file, close does
	}
	return file, err
}

func (s *spooled) fill(ctx context.Context, from io.Reader) error {
	digest, diffID := sha256.New(), sha256.New()
	counter := &counter{w: io.MultiWriter(s.file, digest)}
	// The compressor has one goroutine and no time in its header: the same layer gives the same
	// bytes.
	w := gzip.NewWriter(counter)
	if _, err := io.Copy(w, io.TeeReader(ctxio.NewReader(ctx, from), diffID)); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	s.digest, s.diffID, s.size = hashOf(digest), hashOf(diffID), counter.n
	return nil
}

func (s *spooled) close() error {
	err := s.file.Close()
	_ = os.Remove(s.file.Name()) // see spoolFile
	return err
}

// Digest implements v1.Layer.
func (s *spooled) Digest() (v1.Hash, error) { return s.digest, nil }

// DiffID implements v1.Layer.
func (s *spooled) DiffID() (v1.Hash, error) { return s.diffID, nil }

// Size implements v1.Layer.
func (s *spooled) Size() (int64, error) { return s.size, nil }

// MediaType implements v1.Layer.
func (s *spooled) MediaType() (types.MediaType, error) { return s.media, nil }

// Compressed implements v1.Layer.
func (s *spooled) Compressed() (io.ReadCloser, error) {
	return io.NopCloser(io.NewSectionReader(s.file, 0, s.size)), nil
}

// Uncompressed implements v1.Layer.
func (s *spooled) Uncompressed() (io.ReadCloser, error) {
	return gzip.NewReader(io.NewSectionReader(s.file, 0, s.size))
}

func hashOf(sum hash.Hash) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum.Sum(nil))}
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
