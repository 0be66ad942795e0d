package untrustedtest

import "github.com/yuin/goldmark/util"

// Rendered returns Markdown text as a browser shows it: without backslashes, with references
// resolved.
func Rendered(source []byte) string {
	return string(util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(source))))
}
