package environmenttest

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
)

// loopbackChecks check listening in an environment.
func loopbackChecks() []check {
	list := []check{
		{"what connects to a listener on loopback comes out of it, with any network", checkListenNetworks},
		{"a listener on loopback outlives changes of the network", needing(networkSetter, checkListenSet)},
		{"listeners on loopback are separate, and end with their Close", checkListenClose},
		{"a listener on loopback passes on much, at once", checkListenMuch},
		{"a listener on loopback opens no port of the machine", checkListenMachine},
		{"a listener on loopback ends with its environment", checkListenGone},
	}
	for i := range list {
		list[i].run = needing(loopbackListener, list[i].run)
	}
	return list
}

// listen listens in the environment.
func (b *box) listen() net.Listener {
	b.s.Helper()
	var l net.Listener
	var err error
	b.s.within("ListenLoopback", func() { l, err = environment.ListenLoopback(b.s.ctx, b.Environment) })
	if err != nil {
		b.s.Fatalf("ListenLoopback: %v", err)
	}
	b.s.Cleanup(func() { l.Close() })
	return l
}

// greet answers each connection as servers of the suite do.
func greet(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			buffer := make([]byte, 4096)
			var request strings.Builder
			for !strings.HasSuffix(request.String(), "\r\n\r\n") {
				n, err := conn.Read(buffer)
				if err != nil {
					return
				}
				request.Write(buffer[:n])
			}
			_, _ = io.WriteString(conn, "HTTP/1.0 200 OK\r\n\r\nhello\n") // the client checks the response
		}()
	}
}

func checkListenNetworks(s *scene) {
	for _, n := range []environment.Network{none, {}} {
		b := s.networked(n)
		l := b.listen()
		go greet(l)
		if !b.gets("direct", l.Addr().String()) {
			s.Errorf("with the network %s, %s is not reached", n, l.Addr())
		}
	}
}

func checkListenSet(s *scene) {
	b := s.networked(environment.Network{})
	l := b.listen()
	go greet(l)
	for _, n := range []environment.Network{none, allow("example.com"), none, {}} {
		b.setNetwork(n)
		if !b.gets("direct", l.Addr().String()) {
			s.Errorf("after the network became %s, %s is not reached", n, l.Addr())
		}
	}
}

func checkListenClose(s *scene) {
	b := s.networked(none)
	first, second := b.listen(), b.listen()
	if first.Addr().String() == second.Addr().String() {
		s.Fatalf("both listen at %s", first.Addr())
	}
	go greet(first)
	go greet(second)
	if !b.gets("direct", first.Addr().String()) || !b.gets("direct", second.Addr().String()) {
		s.Error("one of two listeners is not reached")
	}
	first.Close()
	if b.gets("direct", first.Addr().String()) {
		s.Error("a closed listener is reached")
	}
	if !b.gets("direct", second.Addr().String()) {
		s.Error("the listener that is not closed is not reached")
	}
}

func checkListenMuch(s *scene) {
	const size, clients = 4 << 20, 8
	b := s.networked(none)
	l := b.listen()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // the answer is as long as the request
				defer conn.Close()
				n, _ := io.CopyN(io.Discard, conn, size)
				_, _ = fmt.Fprintf(conn, "%d\n", n)
			}()
		}
	}()
	var all sync.WaitGroup
	script := fmt.Sprintf(`for i in 1 2 3 4 5 6 7 8; do
	( exec 7<>/dev/tcp/%s/%s; head -c %d /dev/zero >&7; read -r n <&7; echo "$n" ) &
done; wait`, hostOf(l), portOf(l), size)
	all.Go(func() {
		if got, want := b.run(script), strings.Repeat(fmt.Sprintln(size), clients); got != want {
			s.Errorf("the clients' bytes: %q, want %q", got, want)
		}
	})
	all.Wait()
}

func hostOf(l net.Listener) string { host, _, _ := net.SplitHostPort(l.Addr().String()); return host }
func portOf(l net.Listener) string { _, port, _ := net.SplitHostPort(l.Addr().String()); return port }

func checkListenMachine(s *scene) {
	b := s.networked(none)
	l := b.listen()
	conn, err := net.DialTimeout("tcp", l.Addr().String(), time.Second)
	if err != nil {
		return
	}
	defer conn.Close()
	// Something else may have the port on this machine. It must not be the listener.
	came := make(chan net.Conn, 1)
	go func() {
		if conn, err := l.Accept(); err == nil {
			came <- conn
		}
	}()
	select {
	case conn := <-came:
		conn.Close()
		s.Error("a connection to this machine's loopback device came out of the environment's listener")
	case <-time.After(200 * time.Millisecond):
	}
}

func checkListenGone(s *scene) {
	b := s.networked(none)
	l := b.listen()
	ended := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		ended <- err
	}()
	if err := b.Destroy(s.ctx); err != nil {
		s.Fatalf("Destroy: %v", err)
	}
	s.within("Accept after Destroy", func() {
		if err := <-ended; err == nil {
			s.Error("a connection came from an environment that is destroyed")
		}
	})
	_, err := environment.ListenLoopback(s.ctx, b.Environment)
	s.wantKind("ListenLoopback", err, environment.KindLost)
}
