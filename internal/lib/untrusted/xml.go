package untrusted

import "strings"

// XML returns a block of untrusted text (see Lines) as character data that XML 1.0 allows. The
// encoder has to escape it.
// Source: XML 1.0, production 2: of what Lines lets through, only two characters are illegal.
func XML(s string) string {
	return legal(strings.Join(Lines(s), "\n"))
}

// XMLLine is Line for the value of an XML attribute.
func XMLLine(s string) string { return legal(Line(s)) }

func legal(s string) string {
	if !strings.ContainsAny(s, "\ufffe\uffff") {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r == '\ufffe' || r == '\uffff' {
			return -1
		}
		return r
	}, s)
}
