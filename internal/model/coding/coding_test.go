package coding

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// flusher is a writer that encodes.
type flusher interface {
	io.WriteCloser
	Flush() error
}

// encoders make what servers send.
var encoders = map[string]func(io.Writer) flusher{
	"gzip": func(w io.Writer) flusher { return gzip.NewWriter(w) }, "GZIP": func(w io.Writer) flusher { return gzip.NewWriter(w) },
	"deflate": func(w io.Writer) flusher { return zlib.NewWriter(w) },
	"br":      func(w io.Writer) flusher { return brotli.NewWriter(w) },
	"zstd": func(w io.Writer) flusher {
		z, err := zstd.NewWriter(w)
		if err != nil {
			panic(err)
		}
		return z
	},
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Flushed data is read before the next part arrives: streams are encoded, too.
func TestWhatWasFlushedIsDecoded(t *testing.T) {
	for name, encode := range encoders {
		t.Run(name, func(t *testing.T) {
			from, to := io.Pipe()
			w := encode(to)
			answer, err := Transport{transport(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Encoding": {name}, "Content-Length": {"7"}}, Body: from, Request: r, ContentLength: 7}, nil
			})}.RoundTrip(&http.Request{})
			if err != nil || len(answer.Header) != 0 || answer.ContentLength != -1 {
				t.Fatalf("%v: %+v", err, answer)
			}
			texts := []string{"data: 1\n\n", "data: 2\n\n"}
			next := make(chan string, len(texts)+1)
			go func() { // the only one that writes: a flush may go on when its text has been read
				for text := range next {
					_, _ = io.WriteString(w, text)
					_ = w.Flush()
				}
				_ = w.Close()
				to.Close()
			}()
			for _, text := range texts {
				next <- text
				got := make([]byte, len(text))
				if _, err := io.ReadFull(answer.Body, got); err != nil || string(got) != text {
					t.Fatalf("%q, %v", got, err)
				}
			}
			close(next)
			if rest, err := io.ReadAll(answer.Body); err != nil || len(rest) > 0 {
				t.Errorf("%q, %v", rest, err)
			}
			// Closing ends a Read that waits.
			from, _ = io.Pipe()
			answer, _ = Transport{transport(func(*http.Request) (*http.Response, error) {
				return &http.Response{Header: http.Header{"Content-Encoding": {name}}, Body: from}, nil
			})}.RoundTrip(&http.Request{})
			time.AfterFunc(10*time.Millisecond, func() { answer.Body.Close() })
			if _, err := answer.Body.Read(make([]byte, 1)); err == nil {
				t.Error("nothing was read without an error")
			}
		})
	}
}

func TestSeveralEncodings(t *testing.T) {
	var text, twice, bare bytes.Buffer
	for _, one := range []struct {
		w    flusher
		text string
	}{{zlib.NewWriter(&text), "hello"}, {brotli.NewWriter(&twice), ""}} {
		if one.text == "" {
			one.text = text.String()
		}
		_, _ = io.WriteString(one.w, one.text)
		one.w.Close()
	}
	raw, err := flate.NewWriter(&bare, 5)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(raw, "hello")
	raw.Close()
	for header, body := range map[string]string{
		"deflate, br": twice.String(), "identity,deflate": text.String(), "deflate": bare.String(), "": "hello", "identity": "hello",
	} {
		r, err := NewReader(strings.NewReader(body), header)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != "hello" {
			t.Errorf("%q: %q, %v", header, got, err)
		}
		r.Close()
	}
	for _, header := range []string{"compress", "gzip, other", "gzip,gzip,gzip,gzip,gzip"} {
		if _, err := NewReader(strings.NewReader(""), header); err == nil {
			t.Errorf("%q is known", header)
		}
	}
}

func TestUnknownEncodingsStay(t *testing.T) {
	answer, err := Transport{transport(func(*http.Request) (*http.Response, error) {
		return &http.Response{Header: http.Header{"Content-Encoding": {"compress"}}, Body: io.NopCloser(strings.NewReader("xyz"))}, nil
	})}.RoundTrip(&http.Request{})
	if err != nil || answer.Header.Get("Content-Encoding") != "compress" {
		t.Fatalf("%v: %+v", err, answer)
	}
	defer answer.Body.Close()
	if got, err := io.ReadAll(answer.Body); err != nil || string(got) != "xyz" {
		t.Errorf("%q, %v", got, err)
	}
}
