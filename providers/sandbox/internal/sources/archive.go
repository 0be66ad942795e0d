package sources

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/org/rollout-action/providers/sandbox/internal/decompress"
)

// Unpacking selects the archives that an instruction unpacks.
type Unpacking int

// Which archives are unpacked.
const (
	UnpackNever  Unpacking = iota // COPY, and ADD --unpack=false
	UnpackLocal                   // ADD: archives in the context
	UnpackAlways                  // ADD --unpack=true: downloads, too
)

// xzHint is the hint for archives that ADD cannot unpack.
const xzHint = "compress it with gzip, bzip2 or zstd, or COPY it and RUN tar -xJf, or set --unpack=false to keep it as a file"

// opener is a tree that can open files without a tar stream.
type opener interface {
	Open(path string) (io.ReadCloser, error)
}

// IsArchive reports whether a file is a tar archive, compressed or not. Like BuildKit it examines
// the content, not the name.
func IsArchive(ctx context.Context, t Tree, name string) (bool, error) {
	files, ok := t.(opener)
	if !ok || ctx.Err() != nil {
		return false, ctx.Err()
	}
	file, err := files.Open(name)
	if err != nil {
		return false, err
	}
	defer file.Close()
	content, release, err := decompress.Reader(file)
	if errors.Is(err, decompress.ErrXZ) {
		return false, fmt.Errorf("%w, which ADD cannot unpack here: %s", err, xzHint)
	}
	if err != nil {
		return false, nil // corrupt compression: an ordinary file
	}
	defer release()
	_, err = tar.NewReader(content).Next()
	return err == nil, nil
}

// Unpack calls visit for each entry of an archive.
func Unpack(ctx context.Context, t Tree, name string, visit func(*tar.Header, io.Reader) error) error {
	file, err := t.(opener).Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	content, release, err := decompress.Reader(file)
	if err != nil {
		return err
	}
	defer release()
	return entries(content, func(header *tar.Header, body io.Reader) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return visit(header, body)
	})
}
