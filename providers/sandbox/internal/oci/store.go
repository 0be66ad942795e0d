package oci

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/org/rollout-action/providers/sandbox/internal/decompress"
)

// store is a directory or a tar archive that contains images.
type store struct {
	isDir bool
	open  func(name string) (io.ReadCloser, error) // fs.ErrNotExist: no file of that name
}

// maxDescription bounds the JSON of an index, a manifest or a configuration. Registries accept
// manifests up to 4 MiB.
const maxDescription = 16 << 20

// openStore opens a directory or an archive.
func openStore(file string) (*store, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return &store{isDir: true, open: func(name string) (io.ReadCloser, error) {
			if !filepath.IsLocal(filepath.FromSlash(name)) {
				return nil, fs.ErrNotExist
			}
			return os.Open(filepath.Join(file, filepath.FromSlash(name)))
		}}, nil
	}
	return &store{open: func(name string) (io.ReadCloser, error) { return openInArchive(file, name) }}, nil
}

// maxLinks bounds how many links in an archive are followed. Docker once wrote a link for each
// layer that the archive contained already.
const maxLinks = 10

// openInArchive opens the file name in a tar archive.
func openInArchive(file, name string) (io.ReadCloser, error) {
	for range maxLinks {
		f, err := openArchive(file)
		if err != nil {
			return nil, err
		}
		data, link, err := findInArchive(tar.NewReader(f), name)
		if err == nil && link == "" {
			return &stream{Reader: data, close: []func() error{f.Close}}, nil
		}
		_ = f.Close()
		if err != nil {
			return nil, err
		}
		name = link
	}
	return nil, fmt.Errorf("%s: too many links", name)
}

// findInArchive returns the data of the file name in an archive, or the name of the file to which
// it links.
func findInArchive(archive *tar.Reader, name string) (data io.Reader, link string, err error) {
	for {
		hdr, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil, "", fmt.Errorf("%s: %w", name, fs.ErrNotExist)
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) { // no files are created here
			return nil, "", err
		}
		if path.Clean(hdr.Name) != path.Clean(name) {
			continue
		}
		switch hdr.Typeflag {
		case tar.TypeReg:
			return archive, "", nil
		case tar.TypeSymlink:
			return nil, path.Join(path.Dir(hdr.Name), hdr.Linkname), nil //nolint:gosec // G305: a name to look for in this archive, never one of a file
		case tar.TypeLink:
			return nil, hdr.Linkname, nil
		}
	}
}

// openArchive opens a tar archive. In an uncompressed archive, skipping entries does not read them.
func openArchive(file string) (io.ReadCloser, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	begin := make([]byte, decompress.MagicSize)
	n, err := f.ReadAt(begin, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(err, f.Close())
	}
	if decompress.Compressed(begin[:n]) {
		return uncompressed(f)
	}
	return f, nil
}

// read returns the content of a description.
func (s *store) read(name string) ([]byte, error) {
	f, err := s.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxDescription+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(data) > maxDescription {
		return nil, fmt.Errorf("read %s: it is longer than %d bytes", name, maxDescription)
	}
	return data, nil
}

// blob returns the content of the description with that digest.
func (s *store) blob(digest v1.Hash) ([]byte, error) {
	data, err := s.read(blobName(digest))
	if err != nil {
		return nil, err
	}
	if got := digestOf(data); got != digest.String() {
		return nil, fmt.Errorf("%s is damaged: its digest is %s", digest, got)
	}
	return data, nil
}

// blobName returns the path of a blob in an OCI layout. Source: the OCI image specification,
// image-layout.md.
func blobName(digest v1.Hash) string {
	return path.Join("blobs", digest.Algorithm, digest.Hex)
}

// stored returns a function that opens a file of the store as a layer.
func (s *store) stored(name string) openFunc {
	return func(context.Context) (io.ReadCloser, error) { return s.open(name) }
}
