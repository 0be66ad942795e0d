package dockerfile

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/org/rollout-action/providers/sandbox/internal/decompress"
)

// unpacking selects the archives that an instruction unpacks.
type unpacking int

const (
	unpackNever  unpacking = iota // COPY, and ADD --unpack=false
	unpackLocal                   // ADD: archives in the context
	unpackAlways                  // ADD --unpack=true: downloads, too
)

// xzHint is the hint for archives that ADD cannot unpack.
const xzHint = "compress it with gzip, bzip2 or zstd, or COPY it and RUN tar -xJf, or set --unpack=false to keep it as a file"

// opener is a tree that can open files without a tar stream.
type opener interface {
	open(path string) (io.ReadCloser, error)
}

// isArchive reports whether a file is a tar archive, compressed or not. Like BuildKit it examines
// the content, not the name.
func isArchive(ctx context.Context, t tree, name string) (bool, error) {
	files, ok := t.(opener)
	if !ok || ctx.Err() != nil {
		return false, ctx.Err()
	}
	file, err := files.open(name)
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

// unpack calls visit for each entry of an archive.
func unpack(ctx context.Context, t tree, name string, visit func(*tar.Header, io.Reader) error) error {
	file, err := t.(opener).open(name)
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
