package testoutput

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
)

// maxOutput is the number of bytes of an output that are read: its end, which has the results.
// Terminal-bench reads the last 2,000 lines of a terminal.
const maxOutput = 8 << 20

// Tail is a writer that keeps the end of an output. Writing never fails and needs at most twice the
// memory. The zero value is ready; it is safe for concurrent use.
type Tail struct {
	mu   sync.Mutex
	kept []byte
	cut  bool
}

// Write implements io.Writer.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	if over := len(p) - maxOutput; over > 0 {
		t.kept, t.cut, p = t.kept[:0], true, p[over:]
	}
	t.kept = append(t.kept, p...)
	if len(t.kept) > 2*maxOutput {
		t.trim()
	}
	return n, nil
}

func (t *Tail) trim() {
	if over := len(t.kept) - maxOutput; over > 0 {
		t.kept, t.cut = append(t.kept[:0], t.kept[over:]...), true
	}
}

// String returns the text that a terminal shows of the output: without the line that was cut, and
// without colours.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trim()
	text := t.kept
	if t.cut {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return strings.ToValidUTF8(string(controls.ReplaceAll(text, nil)), "\ufffd")
}

// controls matches sequences that a terminal obeys and does not show: of colours and the cursor
// (CSI), of titles and links (OSC), and of character sets.
var controls = regexp.MustCompile(`\x1b(?:\[[\x30-\x3f]*[\x20-\x2f]*[\x40-\x7e]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[()*+][0-9A-Za-z]|[=>78cDEHMNOZ])`)
