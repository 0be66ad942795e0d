package environment

import (
	"archive/tar"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// ErrTooLarge means that Extract stopped at a limit; earlier entries are on disk.
var ErrTooLarge = errors.New("larger than the limit")

// MaxTap is the number of bytes of a file that ExtractOptions.Tap gets at most.
const MaxTap = 64 << 10

// ExtractOptions limit the output of Extract. 0 means the default.
type ExtractOptions struct {
	MaxBytes int64 // total content of files; default 1 GiB
	MaxFiles int   // number of files and directories; default 50,000
	// Filter, if not nil, wraps the writer of every file (redaction). Closing it must flush, and
	// must not close the wrapped writer.
	Filter func(io.Writer) io.WriteCloser
	// Tap, if not nil, is called with every file's path relative to src and its size in bytes. If
	// it returns a writer, the writer gets the first MaxTap bytes, unfiltered, before anything is
	// written to disk: for files that must be known even if the disk is full. It gets nothing if
	// the archive ends within them.
	Tap func(path string, size int64) io.Writer
	// Skip, if not nil, is called with the path of every file and directory relative to src. If it
	// returns true, the entry is neither written nor counted; it is called for the content of a
	// directory separately.
	Skip func(path string) bool
	// SafeName, if not nil, converts each path element to a name that can be stored on disk.
	SafeName func(string) string
	// File: src must be a file. The content of a directory at src is neither read nor written: the
	// directory is omitted.
	File bool
	// Reserved are paths relative to src that keep their names and those of their parents: other
	// entries that collide with them are Renamed, even if they come first.
	Reserved []string
}

// Extracted describes the result of Extract. Renamed and Omitted are cut at 100 entries.
type Extracted struct {
	Files   int
	Bytes   int64
	Single  bool // src is not a directory
	Renamed []Rename
	Omitted []Omission
	// Links are among the omitted entries: those that can be made where the files are copied to
	// (Copy.Links), because nothing is in their way. There are none, and Incomplete is unknown, if
	// Extract fails.
	Links []Link
	// Incomplete: something was omitted that is not in Links. Named pipes do not count, nor
	// sockets, which streams have as pipes or not at all.
	Incomplete bool
	// Executable lists the files on disk, below dst, that any user could execute in the
	// environment.
	Executable []string
	// Entries describes the files and directories on disk, in the order of the stream: owners,
	// modes, times and names as they are in the environment. A directory that the stream does not
	// have by itself is 0755 and root's. If something written is not in it, Incomplete is true.
	Entries []Entry
}

// Rename is a file that got another name on disk.
type Rename struct{ From, To string }

// Omission is a file that was not written, with the reason.
type Omission struct{ Path, Reason string }

// Extract writes the tar stream r to the directory dst, which must exist. The stream is not
// trusted: nothing is written outside of dst, no link is followed or created, and existing files in
// dst are not changed. strip is the leading path to remove from every entry (logs for a stream of
// logs/...); if strip itself is a file, it is written to dst under the last element of strip.
//
// Files are 0644 and directories 0755, whatever the stream says. Names are Renamed if they are too
// long, are changed by SafeName, or collide with each other or with existing files in dst. Entries
// that cannot be written are Omitted. Names also collide if they differ only in case or in
// Unicode's normal form. At a limit, Extract stops with ErrTooLarge. Then, and if the stream is
// broken, everything before that point is on disk and in Extracted.
func Extract(r io.Reader, dst, strip string, opts ExtractOptions) (Extracted, error) {
	opts.MaxBytes = cmp.Or(opts.MaxBytes, defaultMaxBytes)
	opts.MaxFiles = cmp.Or(opts.MaxFiles, defaultMaxFiles)
	root, err := os.OpenRoot(dst)
	if err != nil {
		return Extracted{}, fmt.Errorf("open the directory to write to: %w", err)
	}
	defer root.Close()
	x := extraction{
		opts: opts,
		root: root,
		dirs: map[string]string{}, tree: tree{}, linked: map[string]Link{}, noted: map[string]int{},
	}
	x.names = newNameTable(opts.SafeName, opts.Reserved, x.existing)
	prefix := strings.FieldsFunc(strip, func(r rune) bool { return r == '/' })
	source := &endReader{Reader: r}
	archive := tar.NewReader(source)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) && !source.ended {
			break
		}
		if err == nil || errors.Is(err, tar.ErrInsecurePath) { // unsafe paths are handled there
			err = x.entry(header, archive, prefix)
		} else {
			err = fmt.Errorf("read archive: %w", err)
		}
		if source.ended && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
			err = ErrCutArchive
		}
		if err != nil {
			return x.out, err
		}
	}
	x.finish()
	return x.out, nil
}

// ErrCutArchive reports an archive of which a part is missing. A tar.Reader takes an end without
// the two blocks that mark it for the end of the archive. An engine that fails in the middle, as
// Podman does when a file grows while it reads it, has no other way to say so. It is no broken
// connection, whose error is that of the Read.
var ErrCutArchive = fmt.Errorf("read archive: %w: files are missing, for example because one of them changed while it was read", io.ErrUnexpectedEOF)

// endReader knows whether the last Read found nothing but the end.
type endReader struct {
	io.Reader
	ended bool
}

// Read implements io.Reader.
func (r *endReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if n > 0 && err == io.EOF {
		return n, nil // the next one finds only the end
	}
	r.ended = err == io.EOF
	return n, err
}
