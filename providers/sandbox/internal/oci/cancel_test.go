//go:build linux

package oci

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"testing"
)

// holes returns an archive with a file of size bytes without any data: a GNU sparse entry.
func holes(t *testing.T, size int64) []byte {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "holes", Mode: 0o644, Typeflag: tar.TypeReg, Format: tar.FormatGNU}), w.Close()); err != nil {
		t.Fatal(err)
	}
	text := archive.Bytes()
	header := text[:512]
	number := func(at int, n int64) { // in base 256, as GNU tar writes large numbers
		field := header[at : at+12]
		clear(field)
		field[0] = 0x80
		binary.BigEndian.PutUint64(field[4:], uint64(n))
	}
	// The fields of an old GNU header: a map of four pieces, and the size with holes. Source: GNU
	// tar manual, "Basic Tar Format", struct sparse and oldgnu_header.
	header[156] = tar.TypeGNUSparse
	number(386, size)
	number(398, 0)
	number(483, size)
	copy(header[148:156], "        ")
	sum := 0
	for _, b := range header {
		sum += int(b)
	}
	copy(header[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return text
}

// cancelling cancels after its first Read.
type cancelling struct {
	io.Reader
	cancel func()
}

func (c cancelling) Read(p []byte) (int, error) {
	defer c.cancel()
	return c.Reader.Read(p)
}

// A cancel ends the unpacking of a file with large holes, of which nothing is read from the
// archive.
func TestCancelInAHole(t *testing.T) {
	gone := errors.New("cancelled")
	ctx, cancel := context.WithCancelCause(t.Context())
	from := cancelling{bytes.NewReader(holes(t, 1<<50)), func() { cancel(gone) }}
	_, err := Unpack(ctx, from, t.TempDir(), UnpackOptions{Xattr: XattrUser, MaxBytes: 1 << 51})
	if !errors.Is(err, gone) {
		t.Errorf("%v, want the cause", err)
	}
}

func TestHolesAreUnpacked(t *testing.T) {
	dir := t.TempDir()
	report, err := Unpack(t.Context(), bytes.NewReader(holes(t, 1<<20)), dir, UnpackOptions{Xattr: XattrUser})
	if err != nil || report.Bytes != 1<<20 {
		t.Errorf("%+v, %v", report, err)
	}
}
