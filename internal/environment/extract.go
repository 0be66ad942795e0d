package environment

import (
	"errors"
	"io"
)

// ErrTooLarge is what Extract returns after it stopped at a limit; what came before it is on disk.
var ErrTooLarge = errors.New("larger than the limit")

// ExtractOptions bound what may come out of an environment. 0 means the default.
type ExtractOptions struct {
	MaxBytes int64 // of file content in all; default 1 GiB
	MaxFiles int   // files and folders in all; default 50,000
	// Filter, if not nil, wraps the writer of every file (redaction). Closing it must flush, and must
	// not close the writer below.
	Filter func(io.Writer) io.WriteCloser
	// SafeName, if not nil, turns each path element into one that can be kept on disk.
	SafeName func(string) string
}

// Extracted says what was written, and what was not. Lists are cut at 100 entries.
type Extracted struct {
	Files   int
	Bytes   int64
	Renamed []Rename
	Omitted []Omission
}

// Rename is a file whose name inside the environment could not be kept.
type Rename struct{ From, To string }

// Omission is a file that was not written, and why.
type Omission struct{ Path, Reason string }
