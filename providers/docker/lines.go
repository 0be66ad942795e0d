package docker

import (
	"strings"
)

const (
	tailLines  = 30
	maxLineLen = 2000
)

// lines cuts text into lines, hands them on, and remembers the last ones.
type lines struct {
	progress func(string) // may be nil
	partial  string
	last     []string
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
	if len(line) > maxLineLen {
		line = strings.ToValidUTF8(line[:maxLineLen], "") + "…"
	}
	l.last = append(l.last, line)
	if len(l.last) > tailLines {
		l.last = l.last[1:]
	}
	if l.progress != nil {
		l.progress(line)
	}
}

// tail is what came last.
func (l *lines) tail() string { return strings.Join(l.last, "\n") }
