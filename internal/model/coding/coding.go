package coding

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// decoders maps the names of encodings to constructors of decoding readers.
var decoders = map[string]func(io.Reader) (io.Reader, func(), error){
	"gzip": gunzip, "x-gzip": gunzip, "deflate": inflate, "zstd": unzstd,
	"br": func(r io.Reader) (io.Reader, func(), error) { return brotli.NewReader(r), func() {}, nil },
}

func gunzip(r io.Reader) (io.Reader, func(), error) {
	z, err := gzip.NewReader(r)
	return z, func() {}, err
}

// inflate reads both forms that servers call deflate: with the header of zlib, as the standard
// says, and without.
func inflate(r io.Reader) (io.Reader, func(), error) {
	from := bufio.NewReader(r)
	if h, err := from.Peek(2); err == nil && h[0]&0x0f == 8 && (int(h[0])<<8|int(h[1]))%31 == 0 {
		z, err := zlib.NewReader(from)
		return z, func() {}, err
	}
	return flate.NewReader(from), func() {}, nil
}

func unzstd(r io.Reader) (io.Reader, func(), error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20))
	if err != nil {
		return nil, nil, err
	}
	return z, z.Close, nil
}

// names returns the encodings that a Content-Encoding lists, in the order in which they were
// applied.
func names(header string) []string {
	var out []string
	for name := range strings.SplitSeq(header, ",") {
		if name = strings.ToLower(strings.TrimSpace(name)); name != "" && name != "identity" {
			out = append(out, name)
		}
	}
	return out
}

// maxEncodings bounds the encodings of one content. Servers apply one.
const maxEncodings = 4

// NewReader returns a reader that undoes the encodings in a Content-Encoding header. It fails for
// unknown ones, and reads nothing before the first Read. The caller closes it; r stays open.
func NewReader(r io.Reader, header string) (io.ReadCloser, error) {
	list := names(header)
	for _, name := range list {
		if decoders[name] == nil || len(list) > maxEncodings {
			return nil, fmt.Errorf("the encoding %q is not known", header)
		}
	}
	slices.Reverse(list)
	return &reader{from: r, left: list}, nil
}

// reader decodes its source. Its decoders are created on the first Read, because they read the
// beginning at once.
type reader struct {
	from io.Reader
	left []string // encodings without a decoder yet
	ends []func()
}

func (d *reader) Read(p []byte) (int, error) {
	for len(d.left) > 0 {
		next, end, err := decoders[d.left[0]](d.from)
		if err != nil {
			return 0, err
		}
		d.left, d.from, d.ends = d.left[1:], next, append(d.ends, end)
	}
	return d.from.Read(p)
}

// Close implements io.Closer.
func (d *reader) Close() error {
	for _, end := range d.ends {
		end()
	}
	d.ends = nil
	return nil
}

// Transport decodes the answers of Next. It does not change answers with an unknown encoding.
type Transport struct{ Next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.Next.RoundTrip(r)
	if err != nil || answer.Body == nil {
		return answer, err
	}
	header := strings.Join(answer.Header.Values("Content-Encoding"), ",")
	decoded, failed := NewReader(answer.Body, header)
	if len(names(header)) == 0 || failed != nil {
		return answer, nil //nolint:nilerr // whoever reads the answer knows what it is
	}
	answer.Body = &body{decoded, answer.Body}
	answer.Header = answer.Header.Clone()
	answer.Header.Del("Content-Encoding")
	answer.Header.Del("Content-Length")
	answer.ContentLength, answer.Uncompressed = -1, true
	return answer, nil
}

// CloseIdleConnections closes the idle connections of Next; http.Client calls it.
func (t Transport) CloseIdleConnections() { (&http.Client{Transport: t.Next}).CloseIdleConnections() }

// body is the body of an answer, decoded.
type body struct {
	io.Reader
	from io.Closer
}

// Close implements io.Closer. It may be called during a Read, which it ends, so decoders are left
// to the garbage collector.
func (b *body) Close() error { return b.from.Close() }
