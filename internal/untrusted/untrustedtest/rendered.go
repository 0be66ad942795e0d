package untrustedtest

import "github.com/yuin/goldmark/util"

// Rendered is the source of a piece of Markdown text as a browser shows it: without backslashes, references resolved.
func Rendered(source []byte) string {
	return string(util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(source))))
}
