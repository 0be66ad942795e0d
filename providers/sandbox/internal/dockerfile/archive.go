package dockerfile

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"
)

// unpacking says which archives an instruction unpacks.
type unpacking int

const (
	unpackNever  unpacking = iota // COPY, and ADD --unpack=false
	unpackLocal                   // ADD: those of the context
	unpackAlways                  // ADD --unpack=true: downloads as well
)

var errXZ = errors.New("this is compressed by xz, which ADD cannot unpack here: compress it with gzip, bzip2 or zstd, or COPY it and RUN tar -xJf, or set --unpack=false to keep it as a file")

// opener is a tree whose files can be opened without a tar stream.
type opener interface {
	open(path string) (io.ReadCloser, error)
}

// isArchive reports whether a file is a tar archive, compressed or not. Like BuildKit it looks at the content, not at
// the name.
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
	content, done, err := decompress(file)
	if errors.Is(err, errXZ) {
		return false, err
	}
	if err != nil {
		return false, nil // not compressed well: a file like any other
	}
	defer done()
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
	content, done, err := decompress(file)
	if err != nil {
		return err
	}
	defer done()
	return entries(content, func(header *tar.Header, body io.Reader) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return visit(header, body)
	})
}

// decompress returns the uncompressed content of a stream. done releases what reading needs.
func decompress(r io.Reader) (content io.Reader, done func(), err error) {
	buffered := bufio.NewReader(r)
	start, _ := buffered.Peek(6) // shorter if the file is
	nothing := func() {}
	switch {
	case bytes.HasPrefix(start, []byte{0x1f, 0x8b}):
		unzipped, err := gzip.NewReader(buffered)
		return unzipped, nothing, err
	case bytes.HasPrefix(start, []byte("BZh")):
		return bzip2.NewReader(buffered), nothing, nil
	case bytes.HasPrefix(start, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		decoder, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, nothing, err
		}
		return decoder, decoder.Close, nil
	case bytes.HasPrefix(start, []byte{0xfd, '7', 'z', 'X', 'Z', 0}):
		return nil, nothing, errXZ
	}
	return buffered, nothing, nil
}
