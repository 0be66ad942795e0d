// Package archive reads zip archives from outside as file systems, without unpacking them.
package archive

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// Limits of an archive.
const (
	maxDirectory = 64 << 20 // bytes of the list of its files, which is held in memory
	maxDepth     = 64
	// MaxRatio is the maximum ratio of a file's size to its size in the archive. Deflate reaches at
	// most 1032.
	MaxRatio = 1100
)

// Archive is an open archive. Several goroutines may read it. Its files cannot seek.
type Archive struct {
	fs.FS
	file *os.File
}

// Close closes the archive.
func (a *Archive) Close() error { return a.file.Close() }

// Open opens an archive. It refuses one with a name that leads outside of it or is duplicate, and
// one whose list of files is too long.
func Open(path string) (a *Archive, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is not a file", path)
	}
	bounded := &boundedReader{from: f, left: maxDirectory}
	z, err := zip.NewReader(bounded, info.Size())
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	bounded.left = -1
	if err := check(z.File); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &Archive{FS: z, file: f}, nil
}

// check returns an error for names that an archive of a job never contains.
func check(files []*zip.File) error {
	seen := make(map[string]bool, len(files))
	for _, f := range files {
		name := strings.TrimSuffix(f.Name, "/")
		if name == "." && f.Mode().IsDir() {
			continue
		}
		name = strings.TrimPrefix(name, "./")
		switch {
		case !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\\x00") || strings.Count(name, "/") > maxDepth:
			return fmt.Errorf("it has a file with the name %q, which no job has", f.Name)
		case seen[name]:
			return fmt.Errorf("it has two files with the name %q", f.Name)
		case f.Mode().IsRegular() && f.UncompressedSize64/MaxRatio > f.CompressedSize64:
			return fmt.Errorf("%q has %d bytes in the archive and would have %d, which is not possible", f.Name, f.CompressedSize64, f.UncompressedSize64)
		}
		seen[name] = true
	}
	return nil
}

// boundedReader reads at most left bytes, or any number if left is negative.
type boundedReader struct {
	from io.ReaderAt
	left int64
}

func (b *boundedReader) ReadAt(p []byte, at int64) (int, error) {
	if b.left >= 0 {
		if b.left < int64(len(p)) {
			return 0, errors.New("its list of files is too long")
		}
		b.left -= int64(len(p))
	}
	return b.from.ReadAt(p, at)
}
