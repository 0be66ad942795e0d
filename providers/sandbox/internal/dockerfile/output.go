package dockerfile

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/org/rollout-action/internal/lib/excerpt"
)

const (
	maxLine   = 2000 // bytes shown of a line, from its beginning and its end
	maxOutput = 4 << 10
)

// output shows a command's output line by line, and keeps its beginning and end.
type output struct {
	mu   sync.Mutex
	show func(string)
	line excerpt.Ends
	open bool // a line is incomplete
	kept excerpt.Ends
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	size := len(p)
	for len(p) > 0 {
		part, rest, whole := bytes.Cut(p, []byte("\n"))
		o.open = true
		_, _ = o.line.Write(part) // never fails
		if whole {
			o.finish()
		}
		p = rest
	}
	return size, nil
}

func (o *output) finish() {
	head, tail, dropped := o.line.Parts()
	line := string(head) + string(tail)
	if dropped > 0 {
		line = fmt.Sprintf("%s […%d bytes…] %s", strings.ToValidUTF8(string(head), ""), dropped, strings.ToValidUTF8(string(tail), ""))
	}
	line = strings.ToValidUTF8(strings.TrimSuffix(line, "\r"), "\uFFFD")
	o.line, o.open = excerpt.Ends{Size: maxLine}, false
	o.show(line)
	_, _ = io.WriteString(&o.kept, line+"\n") // never fails
}

// end shows a last line without a line end.
func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open {
		o.finish()
	}
}

// ends returns the kept beginning and end of the output.
func (o *output) ends() string { return o.kept.String() }

// newOutput returns an output that calls show for each line.
func newOutput(show func(string)) *output {
	return &output{show: show, line: excerpt.Ends{Size: maxLine}, kept: excerpt.Ends{Size: maxOutput}}
}
