package environmenttest

import (
	"errors"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// Listener receives datagrams, and answers questions for the address of a name.
type Listener struct {
	conn *net.UDPConn

	mu    sync.Mutex
	heard []string
}

// Answer is the address that a Listener returns for every name.
var Answer = [4]byte{192, 0, 2, 77}

// Listen starts a Listener, on port 53 for a name server; it skips the test if the port is taken or
// not allowed.
func Listen(t testing.TB, at string, port int) *Listener {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(at), Port: port})
	if port == 53 && (errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EADDRINUSE)) {
		t.Skipf("needs port 53 of %s: %v", at, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	l := &Listener{conn: conn}
	go l.serve()
	return l
}

// Port returns the port that it listens on.
func (l *Listener) Port() int { return l.conn.LocalAddr().(*net.UDPAddr).Port }

// Addr returns the address that it listens on.
func (l *Listener) Addr() net.Addr { return l.conn.LocalAddr() }

// Await waits until the Listener has received want, and clears its record.
func (l *Listener) Await(t testing.TB, want string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if slices.Contains(l.Heard(t), want) {
			return
		}
	}
	t.Errorf("%q was not heard", want)
}

// Heard returns all datagrams so far, including everything sent to this machine before the call,
// and clears the record.
func (l *Listener) Heard(t testing.TB) []string {
	t.Helper()
	const end = "the end"
	own, err := net.DialUDP("udp", nil, l.conn.LocalAddr().(*net.UDPAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if _, err := own.Write([]byte(end)); err != nil {
		t.Fatal(err)
	}
	if _, err := own.Read(make([]byte, len(end))); err != nil { // the datagram comes back
		t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	heard := l.heard[:len(l.heard)-1]
	l.heard = nil
	return heard
}

func (l *Listener) serve() {
	buffer := make([]byte, 1500)
	for {
		n, from, err := l.conn.ReadFromUDP(buffer)
		if err != nil {
			return
		}
		text, reply := string(buffer[:n]), buffer[:n]
		var question dnsmessage.Message
		if question.Unpack(buffer[:n]) == nil && len(question.Questions) == 1 {
			text, reply = question.Questions[0].Name.String(), answered(question)
		}
		l.mu.Lock()
		l.heard = append(l.heard, text)
		l.mu.Unlock()
		_, _ = l.conn.WriteToUDP(reply, from)
	}
}

func answered(m dnsmessage.Message) []byte {
	q := m.Questions[0]
	m.Response, m.Additionals = true, nil
	if q.Type == dnsmessage.TypeA {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}, Body: &dnsmessage.AResource{A: Answer},
		}}
	}
	reply, _ := m.Pack() // of what was unpacked
	return reply
}
