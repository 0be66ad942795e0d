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

// Types of what TLS sends. Source: RFC 8446, sections 4 and 5.1.
const (
	recordHandshake = 22
	typeClientHello = 1
	// extensionECH hides the name in another ClientHello, which only the server can read. Source: RFC 9849, section 11.1.
	extensionECH = 0xfe0d
)

const (
	recordHeader  = 5
	maxRecord     = 1 << 14 // of plain text
	messageHeader = 4
	// maxHello is as much as Go's own server reads. With post-quantum keys and tickets, real ones have some thousand bytes.
	maxHello = 64 << 10
	// maxHelloRecords bounds the records that a ClientHello is spread over. Real ones take a few.
	maxHelloRecords = 64
)

// tlsPorts are where clients speak first, and TLS. Source: the IANA service name registry, and habit for 8443.
var tlsPorts = []uint16{443, 465, 563, 636, 853, 989, 990, 992, 993, 995, 5061, 5671, 6514, 6697, 8443, 8883}

// mustHello tells whether a connection must begin with a ClientHello: because of its port, or because it begins with a record of
// TLS. (The older form of SSL 2 has no room for a name, so that it matters on TLS's ports only.)
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

// Why a connection is refused for what comes first in it.
var (
	errNoHello = errors.New("it does not begin as TLS does, so that nobody can tell which host it asks for (list an address for other protocols on this port)")
	errECH     = errors.New("it hides the host that it asks for (encrypted ClientHello, which clients have a switch for)")
	errSeen    = errors.New("that was all")
)

// readHello reads the ClientHello that a connection must begin with, and returns which name it asks for, "" if none, and what
// it has read. Anything else in its place is errNoHello: a server may overlook a record before it, or take an SSL 2 one, so a
// name behind those would be asked for unseen. So is a ClientHello in which a name may hide.
func readHello(from io.Reader) (name string, seen []byte, err error) {
	var read, message bytes.Buffer
	for records, size := 0, messageHeader; message.Len() < size; records++ {
		header := make([]byte, recordHeader)
		if _, err := io.ReadFull(from, header); err != nil {
			return "", nil, beginning(err)
		}
		length := int(binary.BigEndian.Uint16(header[3:]))
		if header[0] != recordHandshake || header[1] != 3 || length == 0 || length > maxRecord || records == maxHelloRecords {
			return "", nil, errNoHello
		}
		read.Write(header)
		if _, err := io.CopyN(io.MultiWriter(&read, &message), from, int64(length)); err != nil {
			return "", nil, beginning(err)
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

// beginning is what becomes of an error on the way to the ClientHello: a connection that ends early did not begin as it must.
func beginning(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errNoHello
	}
	return err
}

// parseHello has Go's server read a whole ClientHello. It refuses what is not well formed, such as an extension that comes twice,
// or two names.
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

// readOnly is the connection of a server that only listens.
type readOnly struct{ io.Reader }

func (readOnly) Write(b []byte) (int, error)      { return len(b), nil }
func (readOnly) Close() error                     { return nil }
func (readOnly) LocalAddr() net.Addr              { return nil }
func (readOnly) RemoteAddr() net.Addr             { return nil }
func (readOnly) SetDeadline(time.Time) error      { return nil }
func (readOnly) SetReadDeadline(time.Time) error  { return nil }
func (readOnly) SetWriteDeadline(time.Time) error { return nil }
