package untrusted

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Span is a part of a line with one style.
type Span struct {
	Style string // "", or words of a fixed set, separated by spaces: "bold", and "c0" to "c15" for the 16 colours of terminals
	Text  string // safe as in Lines
}

// colours finds the escape sequences that change the style.
var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

// maxCodes bounds the numbers of one escape sequence that are read.
const maxCodes = 16

// Styled splits a block of untrusted text into lines as Lines does, and keeps bold text and the 16
// colours of terminals as styles. Other escape sequences are removed. Empty lines stay, and a line
// may end with spaces.
func Styled(s string) [][]Span {
	lines := [][]Span{nil}
	var now style
	add := func(text string) {
		text = lineBreaks.Replace(strings.ToValidUTF8(ansi.Strip(text), "�"))
		for i, piece := range strings.Split(text, "\n") {
			if i > 0 {
				lines = append(lines, nil)
			}
			if piece = part(piece); piece != "" {
				last := len(lines) - 1
				lines[last] = append(lines[last], Span{now.String(), piece})
			}
		}
	}
	from := 0
	for _, at := range colours.FindAllStringIndex(s, -1) {
		add(s[from:at[0]])
		now.apply(s[at[0]+2 : at[1]-1])
		from = at[1]
	}
	add(s[from:])
	return lines
}

// style is the state of a terminal.
type style struct {
	bold   bool
	colour string // "" is the default
}

// String returns Span.Style.
func (s *style) String() string {
	if s.bold {
		return strings.TrimSpace("bold " + s.colour)
	}
	return s.colour
}

// apply reads the numbers of an escape sequence. Source: ECMA-48, "SGR"; 90 to 97 are those of
// xterm.
func (s *style) apply(codes string) {
	for _, text := range strings.SplitN(codes, ";", maxCodes) {
		code, err := strconv.Atoi(text)
		switch {
		case text == "" || code == 0:
			*s = style{}
		case err != nil:
		case code == 1:
			s.bold = true
		case code == 22:
			s.bold = false
		case code == 38 || code == 48: // a colour of 256 or more, whose numbers follow
			return
		case code == 39:
			s.colour = ""
		case code >= 30 && code <= 37:
			s.colour = "c" + strconv.Itoa(code-30)
		case code >= 90 && code <= 97:
			s.colour = "c" + strconv.Itoa(code-90+8)
		}
	}
}
