package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"time"
)

// Types of TLS records, messages and extensions. Source: RFC 8446, sections 4 and 5.1.
const (
	recordHandshake = 22
	typeClientHello = 1
	// extensionECH hides the name in another ClientHello, which only the server can read. Source:
	// RFC 9849, section 11.1.
	extensionECH = 0xfe0d
)

const (
	recordHeader  = 5
	maxRecord     = 1 << 14 // of plain text
	messageHeader = 4
	// maxHello is the limit of Go's own server. With post-quantum keys and tickets, a real
	// ClientHello has a few thousand bytes.
	maxHello = 64 << 10
	// maxHelloRecords bounds the number of records of a ClientHello. Real ones take a few.
	maxHelloRecords = 64
)

// tlsPorts are ports on which clients begin with TLS. Source: the IANA service name registry; 8443
// by custom.
var tlsPorts = []uint16{443, 465, 563, 636, 853, 989, 990, 992, 993, 995, 5061, 5671, 6514, 6697, 8443, 8883}

// mustHello reports whether a connection must begin with a ClientHello: because of its port, or
// because it begins with a TLS record. (The older form of SSL 2 has no field for a name, so it
// matters only on ports of TLS.)
func mustHello(port uint16, from *bufio.Reader) (bool, error) {
	first, err := from.Peek(1)
	if err != nil || slices.Contains(tlsPorts, port) || first[0] == recordHandshake {
		return true, err
	}
	if first[0] < 20 || first[0] > 24 {
		return false, nil
	}
	two, err := from.Peek(2)
	return len(two) == 2 && two[1] == 3, err
}

// Reasons to refuse a connection for its first bytes.
var (
	errNoHello = errors.New("it does not begin as TLS does, so the host that it asks for is not known (list an address for other protocols on this port)")
	errECH     = errors.New("it hides the host that it asks for (encrypted ClientHello, which clients can switch off)")
	errSeen    = errors.New("the ClientHello is complete")
)

// readHello reads the ClientHello that a connection must begin with. It returns the name that it
// asks for ("" if none) and the bytes that were read. If there is anything else, the error is
// errNoHello: a server may skip a record before the ClientHello, or accept an SSL 2 one, and the
// name after it would go unchecked. A ClientHello that may hide a name is refused as well.
func readHello(from io.Reader) (name string, seen []byte, err error) {
	var read, message bytes.Buffer
	for records, size := 0, messageHeader; message.Len() < size; records++ {
		header := make([]byte, recordHeader)
		if _, err := io.ReadFull(from, header); err != nil {
			return "", nil, readError(err)
		}
		length := int(binary.BigEndian.Uint16(header[3:]))
		if header[0] != recordHandshake || header[1] != 3 || length == 0 || length > maxRecord || records == maxHelloRecords {
			return "", nil, errNoHello
		}
		read.Write(header)
		if _, err := io.CopyN(io.MultiWriter(&read, &message), from, int64(length)); err != nil {
			return "", nil, readError(err)
		}
		if message.Bytes()[0] != typeClientHello {
			return "", nil, errNoHello
		}
		if message.Len() >= messageHeader {
			size = messageHeader + int(binary.BigEndian.Uint32(message.Bytes())&0xffffff)
		}
		if size > maxHello {
			return "", nil, errNoHello
		}
		if message.Len() > size { // nothing follows a ClientHello before the server has answered
			return "", nil, errNoHello
		}
	}
	name, err = parseHello(message.Bytes())
	return name, read.Bytes(), err
}

// readError returns the error for a ClientHello that could not be read: errNoHello if the
// connection ended early.
func readError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errNoHello
	}
	return err
}

// parseHello parses a complete ClientHello with Go's TLS server, which refuses malformed ones, such
// as a repeated extension or two names.
func parseHello(message []byte) (name string, err error) {
	var records bytes.Buffer
	for part := range slices.Chunk(message, maxRecord) {
		records.Write([]byte{recordHandshake, 3, 1})
		records.Write(binary.BigEndian.AppendUint16(nil, uint16(len(part))))
		records.Write(part)
	}
	err = errNoHello
	conn := tls.Server(readOnly{&records}, &tls.Config{
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			name, err = hello.ServerName, nil
			if slices.Contains(hello.Extensions, extensionECH) {
				err = errECH
			}
			return nil, errSeen
		},
	})
	_ = conn.HandshakeContext(context.Background()) // it never succeeds
	return name, err
}

// readOnly is the connection of a TLS server that discards its writes.
type readOnly struct{ io.Reader }

func (readOnly) Write(b []byte) (int, error)      { return len(b), nil }
func (readOnly) Close() error                     { return nil }
func (readOnly) LocalAddr() net.Addr              { return nil }
func (readOnly) RemoteAddr() net.Addr             { return nil }
func (readOnly) SetDeadline(time.Time) error      { return nil }
func (readOnly) SetReadDeadline(time.Time) error  { return nil }
func (readOnly) SetWriteDeadline(time.Time) error { return nil }
