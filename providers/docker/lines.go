package docker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/org/rollout-action/internal/environment"
)

const (
	headLines  = 5
	tailLines  = 30
	maxLineLen = 2000
)

// lines cuts text into lines, hands them on, and remembers the first and the last ones.
type lines struct {
	progress func(string) // may be nil
	partial  string
	first    []string
	last     []string
	dropped  int // bytes of lines between them
}

// text takes the next piece of output.
func (l *lines) text(piece string) {
	l.partial += piece
	for {
		line, rest, found := strings.Cut(l.partial, "\n")
		if !found {
			break
		}
		l.line(line)
		l.partial = rest
	}
	if len(l.partial) > maxLineLen {
		l.end()
	}
}

// end hands on what has no newline.
func (l *lines) end() {
	l.line(l.partial)
	l.partial = ""
}

// line takes a whole line; blank ones are left out.
func (l *lines) line(line string) {
	line = strings.TrimRight(line, " \r\n\t")
	// Of a progress bar that redraws itself, the last state counts.
	line = strings.ToValidUTF8(line[strings.LastIndexByte(line, '\r')+1:], "\uFFFD")
	if line == "" {
		return
	}
	line = environment.CutMiddle(line, maxLineLen)
	if len(l.first) < headLines {
		l.first = append(l.first, line)
	} else {
		l.last = append(l.last, line)
	}
	if len(l.last) > tailLines {
		l.dropped += len(l.last[0]) + 1
		l.last = l.last[1:]
	}
	if l.progress != nil {
		l.progress(line)
	}
}

// tail is what came first and last.
func (l *lines) tail() string {
	kept := slices.Clone(l.first)
	if l.dropped > 0 {
		kept = append(kept, fmt.Sprintf("[%d bytes are left out here]", l.dropped))
	}
	return strings.Join(append(kept, l.last...), "\n")
}
