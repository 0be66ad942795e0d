package redact

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Mask replaces a secret.
const Mask = "***"

const (
	// minSecret is the minimum length of a secret in characters: a shorter value would mask half
	// the text, and is no serious secret.
	minSecret = 6
	// minLine is the minimum length of a line to hide by itself, in a secret of several lines (a
	// private key): logs and YAML indent or prefix such lines.
	minLine = 16
)

// Redactor replaces secrets with Mask. It finds them
//   - as they are;
//   - with any of their characters escaped as in URLs (%2F or %2f, + for space), in strings of
//     JSON, of programming languages and shells (\n, \u00e9, \x2f, '\\”), or in HTML and XML
//     (&amp;, &#39;, &#x27;);
//   - with the quotes in it doubled, as in CSV and SQL;
//   - with two of these one in the other, and three times in a URL or in JSON;
//   - in hexadecimal, of either case, with or without a separator between the bytes, also in the
//     lines of a dump with their text, whose words may have the low byte first: then the bytes of
//     words that are only partly a secret's remain, at most seven at each end;
//   - in UTF-16, of either order of bytes, also in hexadecimal and base64;
//   - in base64, which may be escaped as above, or be that of the secret in base64, JSON or a URL;
//   - in base64, of the standard or the URL alphabet, padded or not, wrapped into lines or not,
//     also when the secret is somewhere inside a longer encoded text. Of the latter, the characters
//     that encode bits of a neighbour too remain: at most 4 bits of a secret at each end.
//
// A Redactor is safe for concurrent use. A nil Redactor redacts nothing.
type Redactor struct {
	text   *trie     // secrets
	base64 *trie     // secrets in base64
	hex    *trie     // secrets in hexadecimal
	wide   *trie     // secrets in UTF-16
	begin  []scanner // as they begin a text
}

// New returns a Redactor for secrets. It ignores white space around them, and secrets with fewer
// than six characters.
func New(secrets []string) *Redactor {
	r := &Redactor{text: newTrie(), base64: newTrie(), hex: newTrie(), wide: newTrie()}
	for _, secret := range secrets {
		for _, s := range parts(secret) {
			r.text.add(s)
			r.text.add(strings.ReplaceAll(s, " ", "+"))
			for _, wide := range wideForms(s) {
				r.wide.add(wide)
				r.hex.add(hexForm(wide))
			}
			r.hex.add(hexForm(s))
			for _, words := range wordForms(s) {
				r.hex.add(words)
			}
			for _, before := range append(wideForms(s), beforeBase64(s)...) {
				for _, form := range base64Forms(before) {
					r.base64.add(form)
				}
			}
		}
	}
	r.text.link()
	r.base64.link()
	r.hex.link()
	r.wide.link()
	r.begin = r.scanners()
	return r
}

// parts returns the texts to search for: the secret, and its longer lines if it has several.
func parts(secret string) []string {
	secret = strings.TrimSpace(secret)
	if utf8.RuneCountInString(secret) < minSecret {
		return nil
	}
	out := []string{secret}
	if !strings.Contains(secret, "\n") {
		return out
	}
	for line := range strings.Lines(secret) {
		if line = strings.TrimSpace(line); utf8.RuneCountInString(line) >= minLine {
			out = append(out, line)
		}
	}
	return out
}

// Empty reports whether there is nothing to redact.
func (r *Redactor) Empty() bool { return r == nil || r.text.empty() }

// String returns s without secrets.
func (r *Redactor) String(s string) string {
	if r.Empty() || s == "" {
		return s
	}
	return string(r.Bytes([]byte(s)))
}

// Bytes returns b without secrets. It does not change b; the result may be b itself.
func (r *Redactor) Bytes(b []byte) []byte {
	if r.Empty() {
		return b
	}
	s := newStream(r)
	s.scan(b, true)
	if len(s.spans) == 0 {
		return b
	}
	return s.take(nil, len(b))
}

// In reports whether content contains a secret. It reads no further than necessary.
func (r *Redactor) In(content io.Reader) (bool, error) {
	if r.Empty() {
		return false, nil
	}
	s := newStream(r)
	piece := make([]byte, maxPiece)
	var out []byte
	for {
		n, err := content.Read(piece)
		if err != nil && err != io.EOF {
			return false, err
		}
		decided := s.scan(piece[:n], err == io.EOF)
		if len(s.spans) > 0 {
			return true, nil
		}
		if err != nil {
			return false, nil //nolint:nilerr // end of content
		}
		out = s.take(out[:0], decided)
	}
}

// Writer returns a writer that redacts text and passes it on to w. It also finds secrets that are
// split between writes, so it holds text back that may be the beginning of a secret. Close passes
// on the rest and does not close w. After an error of w, every call returns that error. The writer
// is not safe for concurrent use.
func (r *Redactor) Writer(w io.Writer) io.WriteCloser {
	if r.Empty() {
		return unclosed{w}
	}
	return &writer{w: w, stream: newStream(r)}
}

type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

type writer struct {
	w      io.Writer
	stream *stream
	out    []byte // reused
	err    error
}

// maxPiece limits the memory that one large write needs.
const maxPiece = 32 << 10

func (w *writer) Write(p []byte) (int, error) {
	for n := 0; n < len(p); {
		piece := p[n:min(len(p), n+maxPiece)]
		if err := w.pass(piece, false); err != nil {
			return n, err
		}
		n += len(piece)
	}
	return len(p), w.err
}

func (w *writer) Close() error { return w.pass(nil, true) }

func (w *writer) pass(p []byte, final bool) error {
	if w.err != nil {
		return w.err
	}
	safe := w.stream.scan(p, final)
	w.out = w.stream.take(w.out[:0], safe)
	if len(w.out) > 0 {
		_, w.err = w.w.Write(w.out)
	}
	return w.err
}
