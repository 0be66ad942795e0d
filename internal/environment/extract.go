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

// ErrTooLarge is what Extract returns after it stopped at a limit; what came before it is on disk.
var ErrTooLarge = errors.New("larger than the limit")

// MaxTap is how much of a file ExtractOptions.Tap is handed, in bytes.
const MaxTap = 64 << 10

// ExtractOptions bound what may come out of an environment. 0 means the default.
type ExtractOptions struct {
	MaxBytes int64 // of file content in all; default 1 GiB
	MaxFiles int   // files and directories in all; default 50,000
	// Filter, if not nil, wraps the writer of every file (redaction). Closing it must flush, and must
	// not close the writer below.
	Filter func(io.Writer) io.WriteCloser
	// Tap, if not nil, is asked about every file, by its path below src and its size in bytes. A writer that it returns
	// is handed the file's first MaxTap bytes, unfiltered, before anything is written to disk: what must be
	// known even if the disk is full. It is handed nothing if the archive ends within them.
	Tap func(path string, size int64) io.Writer
	// Skip, if not nil, is asked about every file and directory, by its path below src. What it refuses is not written, and
	// counts nowhere; a directory's content is asked about one by one.
	Skip func(path string) bool
	// SafeName, if not nil, turns each path element into one that can be kept on disk.
	SafeName func(string) string
	// Reserved are paths below src that keep their names, and their parents', whatever else is in the stream: what collides
	// with them is Renamed, also if it comes first.
	Reserved []string
}

// Extracted says what was written, and what was not. Lists are cut at 100 entries.
type Extracted struct {
	Files   int
	Bytes   int64
	Single  bool // src is no directory
	Renamed []Rename
	Omitted []Omission
}

// Rename is a file whose name inside the environment could not be kept.
type Rename struct{ From, To string }

// Omission is a file that was not written, and why.
type Omission struct{ Path, Reason string }

// Extract writes the tar stream r into the directory dst, which exists. The stream is hostile: nothing
// is written outside of dst, no link is followed or made, and what exists in dst is left as it is.
// strip is the leading path that is dropped from every entry (logs for a stream of logs/...); if
// strip itself is a file, it lands in dst under the last element of strip.
//
// Files are 0644 and directories 0755 whatever the stream says. Names that are too long, that SafeName
// changes, or that collide, with each other or with what exists in dst, are Renamed; entries that cannot be written are
// Omitted. Names collide also if they differ in case alone, or in Unicode's normal form.
// At a limit Extract stops with ErrTooLarge. Then, and when the stream breaks, what came before
// is on disk and in Extracted.
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
		dirs: map[string]string{},
	}
	x.names = newNameTable(opts.SafeName, opts.Reserved, x.existing)
	prefix := strings.FieldsFunc(strip, func(r rune) bool { return r == '/' })
	archive := tar.NewReader(r)
	for {
		header, err := archive.Next()
		if err == io.EOF {
			return x.out, nil
		}
		// Unsafe paths have a treatment of their own.
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
			return x.out, fmt.Errorf("read archive: %w", err)
		}
		if err := x.entry(header, archive, prefix); err != nil {
			return x.out, err
		}
	}
}
