package oci

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// How compressed files begin. Sources: RFC 1952, RFC 8878, and the manuals of bzip2 and xz.
var (
	gzipMagic  = []byte{0x1f, 0x8b}
	zstdMagic  = []byte{0x28, 0xb5, 0x2f, 0xfd}
	bzip2Magic = []byte("BZh")
	xzMagic    = []byte{0xfd, '7', 'z', 'X', 'Z'}
)

// longestMagic is how many bytes show how a file is compressed.
const longestMagic = 5

// maxWindow bounds the memory for a zstd archive: zstd itself has the same limit.
const maxWindow = 128 << 20

// stream reads through a decompressor and closes what is below.
type stream struct {
	io.Reader
	close []func() error // in the order in which they are called
}

func (s *stream) Close() error {
	var errs []error
	for _, c := range s.close {
		errs = append(errs, c())
	}
	s.close = nil
	return errors.Join(errs...)
}

// uncompressed returns the uncompressed content of from, and closes from in the end, also after an error. It does not
// use the media types of images, which may be wrong.
func uncompressed(from io.ReadCloser) (io.ReadCloser, error) {
	buffered := bufio.NewReaderSize(from, 64<<10)
	begin, err := buffered.Peek(longestMagic)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(err, from.Close())
	}
	out := &stream{Reader: buffered, close: []func() error{from.Close}}
	switch {
	case bytes.HasPrefix(begin, gzipMagic):
		unzip, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, errors.Join(err, from.Close())
		}
		out.Reader = unzip
	case bytes.HasPrefix(begin, zstdMagic):
		// One at a time: layers are unpacked beside each other anyhow.
		unzip, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, errors.Join(err, from.Close())
		}
		out.Reader = unzip
		out.close = []func() error{func() error { unzip.Close(); return nil }, from.Close}
	case bytes.HasPrefix(begin, bzip2Magic):
		out.Reader = bzip2.NewReader(buffered)
	case bytes.HasPrefix(begin, xzMagic):
		return nil, errors.Join(errors.New("it is compressed by xz; use gzip or zstd, or do not compress it"), from.Close())
	}
	return out, nil
}

// verified returns the uncompressed archive in from. Its last Read fails if the digest is not diffID; every Read fails
// after ctx has ended.
func verified(ctx context.Context, from io.ReadCloser, diffID string) (io.ReadCloser, error) {
	data, err := uncompressed(from)
	if err != nil {
		return nil, fmt.Errorf("layer %s: %w", diffID, err)
	}
	return &verifier{ctx: ctx, from: data, diffID: diffID, hash: sha256.New()}, nil
}

type verifier struct {
	ctx    context.Context
	from   io.ReadCloser
	diffID string
	hash   hash.Hash
}

func (v *verifier) Read(p []byte) (int, error) {
	if err := v.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := v.from.Read(p)
	v.hash.Write(p[:n])
	switch {
	case errors.Is(err, io.EOF):
		if got := "sha256:" + hex.EncodeToString(v.hash.Sum(nil)); got != v.diffID {
			return n, fmt.Errorf("layer %s is damaged: its digest is %s", v.diffID, got)
		}
		return n, io.EOF
	case err != nil:
		return n, fmt.Errorf("layer %s: %w", v.diffID, err)
	}
	return n, nil
}

func (v *verifier) Close() error { return v.from.Close() }
