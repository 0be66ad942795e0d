package untrusted

import (
	"net/url"
	"path"
	"strings"
)

// maxURL is the longest address that is linked to: longer ones are nobody's.
const maxURL = 2000

// URL is an address from outside, fit for a Markdown link, or "" if it is not an absolute one of the web.
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

// Link is a Markdown link with a text that is Markdown already; the text alone if the address is not fit for one.
func Link(markdown, address string) string {
	if address = URL(address); address == "" {
		return markdown
	}
	return "[" + markdown + "](" + address + ")"
}

// Below is the address of a file or directory below base, which is an address too. It is "" if base is, or if name, with
// forward slashes, would lead out of it.
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
