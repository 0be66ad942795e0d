package termtext

import (
	"io"

	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"
)

// Styles holds the styles of all output. They use the terminal's own 16 colours, which suit any
// theme, and never query the terminal. Colour is never the only sign of something.
type Styles struct {
	Good, Bad, Warn, Dim, Bold lipgloss.Style
}

// NewStyles returns the styles, which change nothing without color.
func NewStyles(color bool) Styles {
	profile := termenv.Ascii
	if color {
		profile = termenv.ANSI
	}
	r := lipgloss.NewRenderer(io.Discard)
	r.SetColorProfile(profile)
	style := r.NewStyle()
	return Styles{
		Good: style.Foreground(lipgloss.ANSIColor(termenv.ANSIGreen)),
		Bad:  style.Foreground(lipgloss.ANSIColor(termenv.ANSIRed)),
		Warn: style.Foreground(lipgloss.ANSIColor(termenv.ANSIYellow)),
		Dim:  style.Faint(true),
		Bold: style.Bold(true),
	}
}
