package environment

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
)

// Ends keeps the beginning and the end of what is written to it, for messages: Size bytes in total, with the number of bytes
// left out between them. Writing never fails and needs at most twice that memory. It is safe for concurrent use.
type Ends struct {
	Size int // 0: 8 KiB

	mu         sync.Mutex
	head, tail []byte
	dropped    int
}

// Write implements io.Writer.
func (e *Ends) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, size := len(p), cmp.Or(e.Size, 8<<10)
	if room := min(len(p), size/4-len(e.head)); room > 0 { // the cause is more often at the end
		e.head = append(e.head, p[:room]...)
		p = p[room:]
	}
	most := size - size/4
	if over := len(p) - most; over > 0 {
		e.dropped += len(e.tail) + over
		e.tail, p = e.tail[:0], p[over:]
	}
	if over := len(e.tail) + len(p) - most; over > 0 {
		e.dropped += over
		e.tail = append(e.tail[:0], e.tail[over:]...)
	}
	e.tail = append(e.tail, p...)
	return n, nil
}

// String returns the kept text as valid UTF-8.
func (e *Ends) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dropped == 0 {
		return strings.ToValidUTF8(string(e.head)+string(e.tail), "")
	}
	return strings.ToValidUTF8(string(e.head), "") + fmt.Sprintf("\n[%d bytes are left out here]\n", e.dropped) + strings.ToValidUTF8(string(e.tail), "")
}

// CutMiddle shortens text to its beginning and its end, with the number of bytes left out between them. It returns a text of at
// most size bytes unchanged.
func CutMiddle(text string, size int) string {
	if len(text) <= size {
		return text
	}
	head := size - size/2
	return strings.ToValidUTF8(text[:head], "") + fmt.Sprintf(" […%d bytes…] ", len(text)-size) + strings.ToValidUTF8(text[len(text)-size/2:], "")
}
