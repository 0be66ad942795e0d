package egress

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// record returns a TLS record.
func record(kind byte, body []byte) []byte {
	return append(binary.BigEndian.AppendUint16([]byte{kind, 3, 1}, uint16(len(body))), body...)
}

// inRecords returns a message split into records of the given size.
func inRecords(message []byte, size int) []byte {
	var out []byte
	for len(message) > 0 {
		n := min(size, len(message))
		out = append(out, record(recordHandshake, message[:n])...)
		message = message[n:]
	}
	return out
}

// extension returns an extension of a ClientHello.
func extension(id uint16, body []byte) []byte {
	return append(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, id), uint16(len(body))), body...)
}

// sni returns the extension that asks for names.
func sni(names ...string) []byte {
	var list []byte
	for _, name := range names {
		list = append(list, 0)
		list = binary.BigEndian.AppendUint16(list, uint16(len(name)))
		list = append(list, name...)
	}
	return extension(0, append(binary.BigEndian.AppendUint16(nil, uint16(len(list))), list...))
}

// clientHello returns a ClientHello with these extensions and a few that every client sends.
func clientHello(extensions ...[]byte) []byte {
	all := append([][]byte{
		extension(0x0a0a, nil), // GREASE
		extension(43, []byte{4, 3, 4, 3, 3}),
		extension(10, []byte{0, 2, 0, 29}),
		extension(13, []byte{0, 2, 4, 3}),
	}, extensions...)
	list := bytes.Join(all, nil)
	body := append([]byte{3, 3}, make([]byte, 32)...)
	body = append(body, 0)                            // no session
	body = append(body, 0, 4, 0x1a, 0x1a, 0x13, 0x01) // GREASE, AES
	body = append(body, 1, 0)                         // no compression
	body = append(binary.BigEndian.AppendUint16(body, uint16(len(list))), list...)
	return message(typeClientHello, body)
}

func message(kind byte, body []byte) []byte {
	return append([]byte{kind, byte(len(body) >> 16), byte(len(body) >> 8), byte(len(body))}, body...)
}

// TestConnectionsMustBeginWithClientHello checks that the check of the TLS name cannot be bypassed.
func TestConnectionsMustBeginWithClientHello(t *testing.T) {
	const refused, passed = "refused", "passed"
	listed, other := clientHello(sni("listed.example")), clientHello(sni("other.example"))
	whole := func(hello []byte) []byte { return record(recordHandshake, hello) }
	long := clientHello(sni("listed.example"), extension(0x8a8a, make([]byte, 40_000)))
	alert, changeSpec := record(21, []byte{1, 0}), record(20, []byte{1})
	sslv2 := append([]byte{0x80, 46, 1, 3, 1, 0, 21, 0, 0, 0, 16}, make([]byte, 37)...)
	for _, c := range []struct {
		name  string
		port  uint16
		sent  []byte
		want  string
		about string // in the refusal
	}{
		{"a listed name", 443, whole(listed), passed, ""},
		{"another one", 443, whole(other), refused, "other.example:443 allowed_hosts does not list it"},
		{"another one in capitals with a record of SSL 3", 443, append([]byte{22, 3, 0}, whole(clientHello(sni("OTHER.example")))[3:]...), refused, "other.example"},
		{"no name", 443, whole(clientHello()), passed, ""},
		{"early data after it", 443, append(whole(listed), record(23, []byte("early"))...), passed, ""},
		{"an alert before it", 443, append(bytes.Clone(alert), whole(other)...), refused, "begin as TLS"},
		{"an alert before a listed name", 443, append(bytes.Clone(alert), whole(listed)...), refused, "begin as TLS"},
		{"a change of the cipher before it", 443, append(bytes.Clone(changeSpec), whole(other)...), refused, "begin as TLS"},
		{"data before it", 443, append(record(23, []byte("x")), whole(other)...), refused, "begin as TLS"},
		{"a heartbeat before it", 443, append(record(24, []byte("x")), whole(other)...), refused, "begin as TLS"},
		{"an empty record before it", 443, append(record(22, nil), whole(other)...), refused, "begin as TLS"},
		{"another message before it", 443, append(whole(message(0, nil)), whole(other)...), refused, "begin as TLS"},
		{"two in one record", 443, whole(append(bytes.Clone(listed), other...)), refused, "begin as TLS"},
		{"in two records", 443, inRecords(listed, 100), passed, ""},
		{"another one in records of 7 bytes", 443, inRecords(other, 7), refused, "other.example:443"},
		{"in records of one byte", 443, inRecords(listed, 1), refused, "begin as TLS"},
		{"an alert within it", 443, append(append(record(22, other[:50]), alert...), record(22, other[50:])...), refused, "begin as TLS"},
		{"an empty record within it", 443, append(append(record(22, other[:50]), record(22, nil)...), record(22, other[50:])...), refused, "begin as TLS"},
		{"a long one", 443, inRecords(long, maxRecord), passed, ""},
		{"one that is too long", 443, inRecords(message(typeClientHello, make([]byte, 70_000)), maxRecord), refused, "begin as TLS"},
		{"a record that is too long", 443, append([]byte{22, 3, 1, 0x40, 1}, make([]byte, 1<<14+1)...), refused, "begin as TLS"},
		{"one that ends early", 443, whole(other)[:60], refused, "begin as TLS"},
		{"a header that ends early", 443, []byte{22, 3}, refused, "begin as TLS"},
		{"another version of records", 443, append([]byte{22, 2}, whole(other)[2:]...), refused, "begin as TLS"},
		{"SSL 2", 443, sslv2, refused, "begin as TLS"},
		{"SSL 2 before it", 443, append(bytes.Clone(sslv2), whole(other)...), refused, "begin as TLS"},
		{"two names", 443, whole(clientHello(sni("listed.example", "other.example"))), refused, "begin as TLS"},
		{"two names in two extensions", 443, whole(clientHello(sni("listed.example"), sni("other.example"))), refused, "begin as TLS"},
		{"a name with a zero byte", 443, whole(clientHello(sni("listed.example\x00.other.example"))), refused, "an invalid name"},
		{"an address for a name", 443, whole(clientHello(sni("192.0.2.1"))), refused, "allowed_hosts does not list it"},
		{"something behind its extensions", 443, whole(message(typeClientHello, append(bytes.Clone(listed[4:]), 0))), refused, "begin as TLS"},
		{"a hidden name", 443, whole(clientHello(sni("listed.example"), extension(extensionECH, append([]byte{0, 0, 1, 0, 1, 7, 0, 0, 0, 8}, make([]byte, 8)...)))), refused, "encrypted ClientHello"},
		{"HTTP on TLS's port", 443, []byte("GET / HTTP/1.1\r\nHost: other.example\r\n\r\n"), refused, "begin as TLS"},
		{"SSH on TLS's port", 443, []byte("SSH-2.0-OpenSSH_9.2\r\n"), refused, "begin as TLS"},
		{"a byte on TLS's port", 8443, []byte("x"), refused, "begin as TLS"},
		{"nothing at all", 443, nil, passed, ""},

		{"SSH on its own", 22, []byte("SSH-2.0-OpenSSH_9.2\r\n"), passed, ""},
		{"a database", 5432, []byte{0, 0, 0, 8, 4, 210, 22, 47}, passed, ""},
		{"a packet that begins with a high bit", 3306, []byte{0x85, 0, 0, 1}, passed, ""},
		{"a packet that begins as an alert would", 27017, []byte{21, 0, 0, 0}, passed, ""},
		{"one byte that a record begins with", 27017, []byte{21}, passed, ""},
		{"TLS on any port", 5432, whole(other), refused, "other.example:5432"},
		{"TLS with an alert before it on any port", 5432, append(bytes.Clone(alert), whole(other)...), refused, "begin as TLS"},
	} {
		for _, reader := range []struct {
			name string
			of   func(io.Reader) io.Reader
		}{{"at once", func(r io.Reader) io.Reader { return r }}, {"byte by byte", iotest.OneByteReader}} {
			t.Run(c.name+" "+reader.name, func(t *testing.T) {
				p := New()
				defer p.Close()
				policy, err := Parse([]string{fmt.Sprintf("listed.example:%d", c.port)})
				if err != nil {
					t.Fatal(err)
				}
				var refusals []string
				p.Set(policy, func(r Refusal) { refusals = append(refusals, fmt.Sprintf("%s:%d %s", r.Host, r.Port, r.Reason)) })
				var there bytes.Buffer
				err = p.send(&there, bufio.NewReader(reader.of(bytes.NewReader(c.sent))), target{host: "listed.example", port: c.port})
				switch {
				case c.want == passed && (err != nil || !bytes.Equal(there.Bytes(), c.sent) || len(refusals) > 0):
					t.Errorf("%v, %d of %d bytes arrived, refusals %q", err, there.Len(), len(c.sent), refusals)
				case c.want == refused && (err == nil || there.Len() > 0):
					t.Errorf("%v, and %d bytes arrived", err, there.Len())
				case c.want == refused && (len(refusals) != 1 || !strings.Contains(refusals[0], c.about)):
					t.Errorf("refused with %q, want something about %q", refusals, c.about)
				}
			})
		}
	}
}

// TestConnectionsToAddressesAreNotInspected checks that the TLS name is ignored after a CONNECT to
// an address.
func TestConnectionsToAddressesAreNotInspected(t *testing.T) {
	p := New()
	defer p.Close()
	p.Set(mustParse(t, "192.0.2.1"), func(r Refusal) { t.Errorf("refused %v", r) })
	at, err := parseTarget("192.0.2.1:443", 0)
	if err != nil {
		t.Fatal(err)
	}
	var there bytes.Buffer
	if err := p.send(&there, bufio.NewReader(strings.NewReader("SSH-2.0-x\r\n")), at); err != nil || there.Len() == 0 {
		t.Error(err)
	}
}

func mustParse(t *testing.T, hosts ...string) Policy {
	t.Helper()
	policy, err := Parse(hosts)
	if err != nil {
		t.Fatal(err)
	}
	return policy
}

// FuzzReadHello checks that reading always ends, and that the name is the one in the complete
// ClientHello.
func FuzzReadHello(f *testing.F) {
	hello := clientHello(sni("listed.example"))
	f.Add(record(recordHandshake, hello))
	f.Add(inRecords(hello, 20))
	f.Add(append(record(21, []byte{1, 0}), record(recordHandshake, hello)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		name, seen, err := readHello(bytes.NewReader(data))
		if err == nil && (!bytes.HasPrefix(data, seen) || data[0] != recordHandshake || !bytes.Contains(bytes.ToLower(data), []byte(strings.ToLower(name))) && name != "" && len(seen) < 64) {
			t.Errorf("%q of %x", name, data)
		}
	})
}
