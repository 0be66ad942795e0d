package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// recordHandshake is the first byte of a connection that speaks TLS. Source: RFC 8446, section 5.1.
const recordHandshake = 22

var errSeen = errors.New("that was all")

// readHello reads as much of a TLS connection as it takes to know which name it asks for, "" if it asks for none, and
// returns what it has read.
func readHello(from io.Reader) (name string, seen []byte, err error) {
	var copied bytes.Buffer
	told := false
	conn := tls.Server(readOnly{io.TeeReader(from, &copied)}, &tls.Config{
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			name, told = hello.ServerName, true
			return nil, errSeen
		},
	})
	if err := conn.HandshakeContext(context.Background()); !told {
		return "", nil, fmt.Errorf("read what TLS asks for: %w", err)
	}
	return name, copied.Bytes(), nil
}

// readOnly is the connection of a server that only listens.
type readOnly struct{ io.Reader }

func (readOnly) Write(b []byte) (int, error)      { return len(b), nil }
func (readOnly) Close() error                     { return nil }
func (readOnly) LocalAddr() net.Addr              { return nil }
func (readOnly) RemoteAddr() net.Addr             { return nil }
func (readOnly) SetDeadline(time.Time) error      { return nil }
func (readOnly) SetReadDeadline(time.Time) error  { return nil }
func (readOnly) SetWriteDeadline(time.Time) error { return nil }
