package excerpt

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Ends is a writer that keeps the beginning and the end of its input, for messages: Size bytes in
// total, with the number of bytes left out between them. Writing never fails and needs at most
// twice that memory. It is safe for concurrent use.
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
	head, tail, dropped := e.Parts()
	if dropped == 0 {
		return strings.ToValidUTF8(string(head)+string(tail), "")
	}
	return strings.ToValidUTF8(string(head), "") + "\n" + gap(int64(dropped)) + "\n" + strings.ToValidUTF8(string(tail), "")
}

// Parts returns the beginning, the end, and the number of bytes left out between them. If it is 0,
// the end follows the beginning.
func (e *Ends) Parts() (head, tail []byte, dropped int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.head), slices.Clone(e.tail), e.dropped
}

// gap returns the text that replaces dropped bytes.
func gap(dropped int64) string { return fmt.Sprintf("[%d bytes are left out here]", dropped) }

// Middle shortens a text to its beginning and its end, with the number of bytes left out between
// them. It returns a text of at most size bytes unchanged.
func Middle(text string, size int) string {
	if len(text) <= size {
		return text
	}
	head := size - size/2
	return ends(text[:head], len(text)-size, text[len(text)-size/2:])
}

func ends(head string, dropped int, tail string) string {
	return strings.ToValidUTF8(head, "") + fmt.Sprintf(" […%d bytes…] ", dropped) + strings.ToValidUTF8(tail, "")
}

// Line shortens a text to its beginning and its end as Middle does, to at most size bytes including
// the note between them. If that is too little room, only the beginning is kept.
func Line(text string, size int) string {
	if len(text) <= size {
		return text
	}
	mark := len(fmt.Sprintf(" […%d bytes…] ", len(text)))
	if size < 2*mark {
		return strings.ToValidUTF8(text[:max(size-len("…"), 0)], "") + "…"
	}
	return Middle(text, size-mark)
}
