package environmenttest

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// Outside starts the server for Options.Serve on the address at, and returns its host:port.
func Outside(t testing.TB, at string) string {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(at, "0"))
	if err != nil {
		t.Fatal(err)
	}
	server := outsideServer()
	go func() { _ = server.Serve(listener) }() // returns at the end of the test
	t.Cleanup(func() { server.Close() })
	return listener.Addr().String()
}

func outsideServer() *http.Server {
	return &http.Server{Handler: http.HandlerFunc(outside), ReadHeaderTimeout: time.Minute}
}

// ServeOutside serves as Outside does, for a separate process on another machine. It returns when
// it fails.
func ServeOutside(listener net.Listener) error { return outsideServer().Serve(listener) }

func outside(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/stream" {
		_, _ = io.WriteString(w, "hello\n")
		return
	}
	for {
		if _, err := io.WriteString(w, "hello\n"); err != nil {
			return
		}
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}
