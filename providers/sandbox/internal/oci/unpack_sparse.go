//go:build linux

package oci

import (
	"bytes"
	"errors"
	"io"
	"os"
)

// pieceSize is the minimum length of a run of zeros that becomes a hole.
const pieceSize = 64 << 10

var zeros [pieceSize]byte

// copySparse copies size bytes of r to the empty file f. Pieces of zeros become holes; tar returns
// an archive's own holes as zeros. buf has the size of a piece.
func copySparse(f *os.File, r io.Reader, size int64, buf []byte) error {
	var at, end int64 // end: of the written data
	for at < size {
		piece := buf[:min(int64(len(buf)), size-at)]
		if _, err := io.ReadFull(r, piece); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		if !bytes.Equal(piece, zeros[:len(piece)]) {
			if _, err := f.WriteAt(piece, at); err != nil {
				return err
			}
			end = at + int64(len(piece))
		}
		at += int64(len(piece))
	}
	if end < size {
		return f.Truncate(size)
	}
	return nil
}
