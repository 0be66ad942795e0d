package untrusted

import (
	"net/url"
	"path"
	"strings"
)

// maxURL is the longest URL that becomes a link.
const maxURL = 2000

// URL returns a URL from outside in a form that is safe in a Markdown link, or "" if it is not an
// absolute http(s) URL.
func URL(s string) string {
	u, err := url.Parse(s)
	if err != nil || len(s) > maxURL || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return ""
	}
	const plain = "-._~:/?#@!$*+,;=%"
	var b strings.Builder
	for _, c := range []byte(u.String()) {
		switch {
		case alphanumeric(c), strings.IndexByte(plain, c) >= 0:
			b.WriteByte(c)
		case c == '&':
			b.WriteString("&amp;")
		default:
			const digits = "0123456789ABCDEF"
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		}
	}
	return b.String()
}

// Link returns a Markdown link with the given text, which is Markdown already; it returns only the
// text if address is not valid.
func Link(markdown, address string) string {
	if address = URL(address); address == "" {
		return markdown
	}
	return "[" + markdown + "](" + address + ")"
}

// Below returns the URL of a file or directory below base, a URL, too. name has forward slashes. It
// returns "" if base is "", or if name leads outside of it.
func Below(base, name string) string {
	if base == "" || name == "" || name != path.Clean(name) || path.IsAbs(name) || name == ".." || strings.HasPrefix(name, "../") {
		return ""
	}
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		parts = append(parts, url.PathEscape(part))
	}
	return strings.TrimSuffix(base, "/") + "/" + strings.Join(parts, "/")
}
