// Package decompress reads streams that may be compressed. It detects the format from the content,
// not from names or media types.
package decompress

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// The first bytes of compressed files. Sources: RFC 1952, RFC 8878, and the manuals of bzip2 and
// xz.
var (
	gzipMagic  = []byte{0x1f, 0x8b}
	zstdMagic  = []byte{0x28, 0xb5, 0x2f, 0xfd}
	bzip2Magic = []byte("BZh")
	xzMagic    = []byte{0xfd, '7', 'z', 'X', 'Z'}
)

// MagicSize is the number of bytes needed to detect the compression of a stream.
const MagicSize = 5

// maxWindow bounds the memory for a zstd stream. The zstd program has the same limit.
const maxWindow = 128 << 20

// ErrXZ reports a stream compressed by xz, which is not supported.
var ErrXZ = errors.New("it is compressed by xz")

// Compressed reports whether begin is the beginning of a compressed stream.
func Compressed(begin []byte) bool {
	for _, magic := range [][]byte{gzipMagic, zstdMagic, bzip2Magic, xzMagic} {
		if bytes.HasPrefix(begin, magic) {
			return true
		}
	}
	return false
}

// Reader returns the content of a stream, decompressed if it is compressed. The caller must call
// release when it is done reading. Reader does not close from.
func Reader(from io.Reader) (content io.Reader, release func(), err error) {
	buffered := bufio.NewReaderSize(from, 64<<10)
	begin, err := buffered.Peek(MagicSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	release = func() {}
	switch {
	case bytes.HasPrefix(begin, gzipMagic):
		unzip, err := gzip.NewReader(buffered)
		return unzip, release, err
	case bytes.HasPrefix(begin, zstdMagic):
		// One goroutine each, because many streams are read at the same time.
		unzip, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, nil, err
		}
		return unzip, unzip.Close, nil
	case bytes.HasPrefix(begin, bzip2Magic):
		return bzip2.NewReader(buffered), release, nil
	case bytes.HasPrefix(begin, xzMagic):
		return nil, nil, ErrXZ
	}
	return buffered, release, nil
}
