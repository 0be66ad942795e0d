package trial

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/org/rollout-action/internal/redact"
)

// maxTailBytes is how much of the end of a stream is kept where it is cut, at most: until the stream ends that is in memory.
const maxTailBytes = 512 << 10

// capture is one stream of a command on its way to a file: redacted, and capped: of a stream that is longer than the limit, the
// beginning and the end are kept. Writes always succeed, so that a full disk or a reached cap does not stop the command.
type capture struct {
	path    string // below the trial's folder, for people
	limit   int64
	file    *os.File
	filter  io.WriteCloser
	written int64  // of the beginning
	tail    []byte // what came after the beginning, the last of it
	dropped int64  // between them
	err     error  // the first failure to write
}

// maxTail returns how long the tail may be.
func (c *capture) maxTail() int { return int(min(maxTailBytes, c.limit/2)) }

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
	c.trim(c.maxTail())
	if c.dropped > 0 {
		c.write(fmt.Appendf(nil, "\n[rollout: %d bytes are left out here (max_stream_size is %d)]\n", c.dropped, c.limit))
	}
	c.write(c.tail)
	if err := c.file.Close(); err != nil && c.err == nil {
		c.err = err
	}
	switch {
	case c.err != nil:
		return "could not be written whole: " + c.err.Error()
	case c.dropped > 0:
		return fmt.Sprintf("%d bytes between the first %d and the last %d were left out", c.dropped, c.written, len(c.tail))
	}
	return ""
}

// capped is the end of a capture: what goes to the file.
type capped capture

func (c *capped) Write(p []byte) (int, error) {
	n := len(p)
	all := (*capture)(c)
	if head := min(int64(len(p)), c.limit-int64(all.maxTail())-c.written); head > 0 {
		all.write(p[:head])
		c.written += head
		p = p[head:]
	}
	// What has no room in the tail anyhow need not be copied to it.
	if over := len(p) - all.maxTail(); over > 0 {
		c.dropped += int64(len(c.tail) + over)
		c.tail, p = c.tail[:0], p[over:]
	}
	c.tail = append(c.tail, p...)
	if len(c.tail) > 2*all.maxTail() { // not at each write, which would move all of it each time
		all.trim(all.maxTail())
	}
	return n, nil
}

// trim leaves out the beginning of a tail that is too long.
func (c *capture) trim(most int) {
	if over := len(c.tail) - most; over > 0 {
		c.dropped += int64(over)
		c.tail = append(c.tail[:0], c.tail[over:]...)
	}
}

// write writes to the file, until that fails once.
func (c *capture) write(p []byte) {
	if c.err != nil || len(p) == 0 {
		return
	}
	if _, err := c.file.Write(p); err != nil {
		c.err = err
	}
}
