package record

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/org/rollout-action/internal/lib/redact"
)

// maxTailBytes limits the end of a stream that is kept if the stream is too long. It stays in
// memory until the stream ends.
const maxTailBytes = 512 << 10

// Stream writes one stream of a command to a file. It redacts the stream, and keeps only the
// beginning and the end if it is longer than the limit. Writes always succeed, so that neither a
// full disk nor the limit stops the command.
type Stream struct {
	path    string // below the trial's directory, for messages
	limit   int64
	file    *os.File
	filter  io.WriteCloser
	written int64  // of the beginning
	tail    []byte // the last bytes after the beginning
	dropped int64  // between beginning and tail
	err     error  // the first failure to write
}

// maxTail returns the maximum length of the tail.
func (c *Stream) maxTail() int { return int(min(maxTailBytes, c.limit/2)) }

// openStream returns a stream that appends to dir/path. It makes missing directories.
func openStream(dir, path string, limit int64, r *redact.Redactor) (*Stream, error) {
	full := filepath.Join(dir, filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(full, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	c := &Stream{path: path, limit: limit, file: file}
	c.filter = r.Writer((*capped)(c))
	return c, nil
}

func (c *Stream) Write(p []byte) (int, error) {
	if _, err := c.filter.Write(p); err != nil && c.err == nil {
		c.err = err
	}
	return len(p), nil
}

// close ends the stream and describes the omitted part, or returns "".
func (c *Stream) close() (omitted string) {
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

// capped writes a redacted stream to its file.
type capped Stream

func (c *capped) Write(p []byte) (int, error) {
	n := len(p)
	all := (*Stream)(c)
	if head := min(int64(len(p)), c.limit-int64(all.maxTail())-c.written); head > 0 {
		all.write(p[:head])
		c.written += head
		p = p[head:]
	}
	// Bytes that would be dropped from the tail need not be copied.
	if over := len(p) - all.maxTail(); over > 0 {
		c.dropped += int64(len(c.tail) + over)
		c.tail, p = c.tail[:0], p[over:]
	}
	c.tail = append(c.tail, p...)
	if len(c.tail) > 2*all.maxTail() { // not at each write, which would move the whole tail each time
		all.trim(all.maxTail())
	}
	return n, nil
}

// trim drops the beginning of a tail that is longer than most.
func (c *Stream) trim(most int) {
	if over := len(c.tail) - most; over > 0 {
		c.dropped += int64(over)
		c.tail = append(c.tail[:0], c.tail[over:]...)
	}
}

// write writes to the file, until that fails once.
func (c *Stream) write(p []byte) {
	if c.err != nil || len(p) == 0 {
		return
	}
	if _, err := c.file.Write(p); err != nil {
		c.err = err
	}
}
