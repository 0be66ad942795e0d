package dockerfile

import (
	"bytes"
	"strings"
	"sync"
)

const (
	maxLine   = 2000 // bytes of a line that are shown; the rest is dropped
	tailLines = 20
	tailSize  = 4 << 10
)

// output shows what a command prints line by line, and remembers the end.
type output struct {
	mu   sync.Mutex
	show func(string)
	line []byte
	long bool
	tail []string
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	size := len(p)
	for len(p) > 0 {
		part, rest, whole := bytes.Cut(p, []byte("\n"))
		o.add(part)
		if whole {
			o.finish()
		}
		p = rest
	}
	return size, nil
}

func (o *output) add(part []byte) {
	if room := maxLine - len(o.line); len(part) > room {
		part, o.long = part[:room], true
	}
	o.line = append(o.line, part...)
}

func (o *output) finish() {
	line := strings.ToValidUTF8(strings.TrimSuffix(string(o.line), "\r"), "\uFFFD")
	if o.long {
		line += "…"
	}
	o.line, o.long = o.line[:0], false
	o.show(line)
	if o.tail = append(o.tail, line); len(o.tail) > tailLines {
		o.tail = o.tail[1:]
	}
}

// end shows a last line that was not ended.
func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.line) > 0 {
		o.finish()
	}
}

// last is the end of what was printed: whole lines, unless one is too long by itself.
func (o *output) last() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := ""
	for i := len(o.tail) - 1; i >= 0; i-- {
		next := o.tail[i] + "\n" + text
		if len(next) > tailSize {
			break
		}
		text = next
	}
	return text
}
