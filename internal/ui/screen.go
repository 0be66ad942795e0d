package ui

import (
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// screen keeps a few lines at the bottom of a terminal, which are redrawn in place, below lines that
// stay. It never clears more than it must: a frame costs the lines that changed, in one write, and
// terminals that know synchronized output (others ignore it) show it all at once. The cursor, hidden,
// waits below the frame.
//
// It is not bubbletea's renderer because importing that package (v1) asks the terminal for its
// colours before main runs, and waits up to five seconds for an answer, in every command.
type screen struct {
	out   io.Writer
	frame []string // as drawn, each at most cols-1 cells wide
	cols  int      // when it was drawn
	begun bool
}

// draw prints above for good, with the frame in its new form below it. Nothing is written when
// nothing has changed. Lines of above may be wider than the terminal: it wraps them.
func (s *screen) draw(above, frame []string, cols int) {
	for i, line := range frame {
		frame[i] = ansi.Truncate(line, cols-1, "")
	}
	resized := cols != s.cols && len(s.frame) > 0
	if len(above) == 0 && !resized && slices.Equal(frame, s.frame) {
		return
	}
	var b strings.Builder
	b.WriteString(ansi.SetSynchronizedOutputMode)
	if !s.begun {
		b.WriteString(ansi.HideCursor)
		s.begun = true
	}
	b.WriteByte('\r')
	if up := s.height(cols); up > 0 {
		b.WriteString(ansi.CursorUp(up))
	}
	old := s.frame
	if resized {
		b.WriteString(ansi.EraseScreenBelow)
		old = nil
	}
	for _, line := range above {
		if ansi.StringWidth(line) < cols {
			line += ansi.EraseLineRight
		} else {
			// What it wraps onto would show through behind its end, and erasing there is no way out:
			// behind the last column that takes the last character.
			b.WriteString(ansi.EraseScreenBelow)
		}
		b.WriteString(line + "\r\n")
		old = nil
	}
	b.WriteString(ansi.ResetAutoWrapMode) // should the terminal have become narrower just now
	for i, line := range frame {
		if i >= len(old) || old[i] != line {
			b.WriteString(line + ansi.EraseLineRight)
		}
		b.WriteString("\r\n")
	}
	b.WriteString(ansi.SetAutoWrapMode)
	b.WriteString(ansi.EraseScreenBelow) // lines of a taller frame, and what was typed
	b.WriteString(ansi.ResetSynchronizedOutputMode)
	s.frame, s.cols = frame, cols
	_, _ = io.WriteString(s.out, b.String())
}

// height is how many rows the frame takes now. Terminals wrap the lines of a window that has become
// narrower, so it may be more than its lines.
func (s *screen) height(cols int) int {
	rows := 0
	for _, line := range s.frame {
		rows += max(1, (ansi.StringWidth(line)+cols-1)/max(cols, 1))
	}
	return rows
}

// close removes the frame, prints above for good and gives the cursor back.
func (s *screen) close(above []string, cols int) {
	s.draw(above, nil, cols)
	if s.begun {
		_, _ = io.WriteString(s.out, ansi.ShowCursor)
	}
}
