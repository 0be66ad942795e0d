package ui

import (
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// screen keeps a few lines at the bottom of a terminal, below lines that stay, and redraws them in
// place. It clears as little as possible: a frame costs the lines that changed, in one write, and
// terminals with synchronized output (others ignore it) show it at once. The cursor is hidden and
// stays below the frame.
//
// It does not use bubbletea's renderer, because that package (v1) queries the terminal for its
// colours before main runs, and waits up to five seconds for a response, in every command.
type screen struct {
	out   io.Writer
	frame []string // as drawn; each line is at most cols-1 cells wide
	cols  int      // when the frame was drawn
	begun bool
}

// draw prints above, which stays, and the new frame below it. It writes nothing if nothing has
// changed. Lines of above may be wider than the terminal, which wraps them.
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
			// Text of the old frame would show behind the end of the wrapped line. Erasing there
			// does not help: behind the last column it erases the last character.
			b.WriteString(ansi.EraseScreenBelow)
		}
		b.WriteString(line + "\r\n")
		old = nil
	}
	b.WriteString(ansi.ResetAutoWrapMode) // in case the terminal has just become narrower
	for i, line := range frame {
		if i >= len(old) || old[i] != line {
			b.WriteString(line + ansi.EraseLineRight)
		}
		b.WriteString("\r\n")
	}
	b.WriteString(ansi.SetAutoWrapMode)
	b.WriteString(ansi.EraseScreenBelow) // lines of a taller frame, and typed text
	b.WriteString(ansi.ResetSynchronizedOutputMode)
	s.frame, s.cols = frame, cols
	_, _ = io.WriteString(s.out, b.String())
}

// height returns how many rows the frame takes now. Terminals wrap lines when a window gets
// narrower, so it may be more than the number of lines.
func (s *screen) height(cols int) int {
	rows := 0
	for _, line := range s.frame {
		rows += max(1, (ansi.StringWidth(line)+cols-1)/max(cols, 1))
	}
	return rows
}

// close removes the frame, prints above, which stays, and shows the cursor.
func (s *screen) close(above []string, cols int) {
	s.draw(above, nil, cols)
	if s.begun {
		_, _ = io.WriteString(s.out, ansi.ShowCursor)
	}
}
