package relay

import (
	"io"
	"strings"
	"testing"
)

// A port is a whole line: a relay that ends within it does not listen there.
func TestAcceptTakesWholePortsOnly(t *testing.T) {
	for said, want := range map[string]string{
		"": "wait for the relay: EOF", "409": `the relay says "409" instead of its port: EOF`,
		"OCI runtime error\n": `the relay says "OCI runtime error" instead of its port`, "70000\n": `the relay says "70000" instead of its port`,
		strings.Repeat("9", 2000): "instead of its port",
	} {
		l, port, err := Accept(conn{strings.NewReader(said)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, port %d, error %v, want %s", said, l, port, err, want)
		}
	}
	l, port, err := Accept(conn{strings.NewReader("4096\n")})
	if err != nil || port != 4096 {
		t.Fatalf("port %d, error %v", port, err)
	}
	l.Close()
}

type conn struct{ io.Reader }

func (conn) Write(b []byte) (int, error) { return len(b), nil }
func (conn) Close() error                { return nil }
