package untrustedtest

import (
	"bytes"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer/html"
)

// HTML renders a report as HTML, about as GitHub shows it. It keeps the HTML tags in source, so it
// is not for untrusted text.
func HTML(t *testing.T, source []byte) string {
	t.Helper()
	var b bytes.Buffer
	if err := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(html.WithUnsafe())).Convert(source, &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
