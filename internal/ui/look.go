package ui

import (
	"io"

	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"
)

// look is the set of styles. They use the terminal's own 16 colours, so they suit any theme, and the
// terminal is never asked anything. Meaning is never in the colour alone.
type look struct {
	good, bad, warn, dim, bold lipgloss.Style
}

func newLook(color bool) look {
	profile := termenv.Ascii
	if color {
		profile = termenv.ANSI
	}
	r := lipgloss.NewRenderer(io.Discard)
	r.SetColorProfile(profile)
	style := r.NewStyle()
	return look{
		good: style.Foreground(lipgloss.ANSIColor(termenv.ANSIGreen)),
		bad:  style.Foreground(lipgloss.ANSIColor(termenv.ANSIRed)),
		warn: style.Foreground(lipgloss.ANSIColor(termenv.ANSIYellow)),
		dim:  style.Faint(true),
		bold: style.Bold(true),
	}
}
