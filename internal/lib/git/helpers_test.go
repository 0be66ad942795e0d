package git_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"math/rand/v2"
	"net/http"
)

// copyBody copies a request's body to a writer, decompressed, and restores it.
func copyBody(to io.Writer, req *http.Request) (int64, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return 0, err
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	if req.Header.Get("Content-Encoding") != "gzip" {
		n, err := to.Write(body)
		return int64(n), err
	}
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	return io.Copy(to, r)
}

// incompressible returns text that git cannot compress.
func incompressible(size int) string {
	source := rand.NewChaCha8([32]byte{1})
	b := make([]byte, size)
	_, _ = source.Read(b)
	return string(b)
}
