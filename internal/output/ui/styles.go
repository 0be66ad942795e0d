package ui

import (
	"io"

	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"
)

// styles holds the styles of all output. They use the terminal's own 16 colours, which suit any
// theme, and never query the terminal. Colour is never the only sign of something.
type styles struct {
	good, bad, warn, dim, bold lipgloss.Style
}

func newStyles(color bool) styles {
	profile := termenv.Ascii
	if color {
		profile = termenv.ANSI
	}
	r := lipgloss.NewRenderer(io.Discard)
	r.SetColorProfile(profile)
	style := r.NewStyle()
	return styles{
		good: style.Foreground(lipgloss.ANSIColor(termenv.ANSIGreen)),
		bad:  style.Foreground(lipgloss.ANSIColor(termenv.ANSIRed)),
		warn: style.Foreground(lipgloss.ANSIColor(termenv.ANSIYellow)),
		dim:  style.Faint(true),
		bold: style.Bold(true),
	}
}
