package trial

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/org/rollout-action/internal/redact"
)

// capture is one stream of a command on its way to a file: redacted, capped, never held in memory.
// Writes always succeed, so that a full disk or a reached cap does not stop the command.
type capture struct {
	path    string // below the trial's folder, for people
	limit   int64
	file    *os.File
	filter  io.WriteCloser
	written int64
	dropped int64
	err     error // the first failure to write
}

// openCapture appends to dir/path; the folders are made.
func openCapture(dir, path string, limit int64, r *redact.Redactor) (*capture, error) {
	full := filepath.Join(dir, filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(full, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	c := &capture{path: path, limit: limit, file: file}
	c.filter = r.Writer((*capped)(c))
	return c, nil
}

func (c *capture) Write(p []byte) (int, error) {
	if _, err := c.filter.Write(p); err != nil && c.err == nil {
		c.err = err
	}
	return len(p), nil
}

// close ends the stream and says what of it was not kept, or "".
func (c *capture) close() (omitted string) {
	if err := c.filter.Close(); err != nil && c.err == nil {
		c.err = err
	}
	if c.dropped > 0 {
		_, err := fmt.Fprintf(c.file, "\n[rollout: output cut here: %d bytes more were dropped (max_stream_size is %d)]\n", c.dropped, c.limit)
		if err != nil && c.err == nil {
			c.err = err
		}
	}
	if err := c.file.Close(); err != nil && c.err == nil {
		c.err = err
	}
	switch {
	case c.err != nil:
		return "could not be written whole: " + c.err.Error()
	case c.dropped > 0:
		return fmt.Sprintf("cut after %d bytes, %d bytes more were dropped", c.limit, c.dropped)
	}
	return ""
}

// capped is the end of a capture: what goes to the file.
type capped capture

func (c *capped) Write(p []byte) (int, error) {
	keep := min(int64(len(p)), c.limit-c.written)
	c.dropped += int64(len(p)) - keep
	if keep <= 0 || c.err != nil {
		return len(p), nil //nolint:nilerr // a command is not stopped by a full disk
	}
	n, err := c.file.Write(p[:keep])
	c.written += int64(n)
	if err != nil {
		c.err = err
	}
	return len(p), nil
}
