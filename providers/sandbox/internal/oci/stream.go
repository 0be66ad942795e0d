package oci

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/org/rollout-action/internal/lib/ctxio"
	"github.com/org/rollout-action/providers/sandbox/internal/decompress"
)

// stream reads through a decompressor and closes the underlying readers.
type stream struct {
	io.Reader
	close []func() error // in call order
}

func (s *stream) Close() error {
	var errs []error
	for _, c := range s.close {
		errs = append(errs, c())
	}
	s.close = nil
	return errors.Join(errs...)
}

// uncompressed returns the uncompressed content of from, and takes over closing from, also after an
// error. It ignores the media types of images, which may be wrong.
func uncompressed(from io.ReadCloser) (io.ReadCloser, error) {
	content, release, err := decompress.Reader(from)
	if errors.Is(err, decompress.ErrXZ) {
		err = fmt.Errorf("%w; use gzip or zstd, or do not compress it", err)
	}
	if err != nil {
		return nil, errors.Join(err, from.Close())
	}
	return &stream{Reader: content, close: []func() error{func() error { release(); return nil }, from.Close}}, nil
}

// verified returns the uncompressed archive in from. Its last Read fails if the digest is not
// diffID; every Read fails after ctx has ended.
func verified(ctx context.Context, from io.ReadCloser, diffID string) (io.ReadCloser, error) {
	data, err := uncompressed(from)
	if err != nil {
		return nil, fmt.Errorf("layer %s: %w", diffID, err)
	}
	return &verifier{from: ctxio.NewReader(ctx, data), closer: data, diffID: diffID, hash: sha256.New()}, nil
}

type verifier struct {
	from   io.Reader
	closer io.Closer // of from
	diffID string
	hash   hash.Hash
}

func (v *verifier) Read(p []byte) (int, error) {
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

func (v *verifier) Close() error { return v.closer.Close() }
