package network

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/internal/core/environment/environmenttest/suite"
)

// loopbackChecks check listening in an environment.
func loopbackChecks() []suite.Check {
	list := []suite.Check{
		{Name: "what connects to a listener on loopback comes out of it, with any network", Run: checkListenNetworks},
		{Name: "a listener on loopback outlives changes of the network", Run: suite.Needing(suite.NetworkSetter, checkListenSet)},
		{Name: "listeners on loopback are separate, and end with their Close", Run: checkListenClose},
		{Name: "a listener on loopback passes on much, at once", Run: checkListenMuch},
		{Name: "a listener on loopback opens no port of the machine", Run: checkListenMachine},
		{Name: "a listener on loopback ends with its environment", Run: checkListenGone},
	}
	for i := range list {
		list[i].Run = suite.Needing(suite.LoopbackListener, list[i].Run)
	}
	return list
}

// listen listens in the environment.
func listen(b *suite.Env) net.Listener {
	b.Scene.Helper()
	var l net.Listener
	var err error
	b.Scene.Within("ListenLoopback", func() { l, err = environment.ListenLoopback(b.Scene.Ctx, b.Environment) })
	if err != nil {
		b.Scene.Fatalf("ListenLoopback: %v", err)
	}
	b.Scene.Cleanup(func() { l.Close() })
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

func checkListenNetworks(s *suite.Scene) {
	for _, n := range []environment.Network{suite.None, {}} {
		b := networked(s, n)
		l := listen(b)
		go greet(l)
		if !gets(b, "direct", l.Addr().String(), true) {
			s.Errorf("with the network %s, %s is not reached", n, l.Addr())
		}
	}
}

func checkListenSet(s *suite.Scene) {
	b := networked(s, environment.Network{})
	l := listen(b)
	go greet(l)
	for _, n := range []environment.Network{suite.None, allow("example.com"), suite.None, {}} {
		b.SetNetwork(n)
		if !gets(b, "direct", l.Addr().String(), true) {
			s.Errorf("after the network became %s, %s is not reached", n, l.Addr())
		}
	}
}

func checkListenClose(s *suite.Scene) {
	b := networked(s, suite.None)
	first, second := listen(b), listen(b)
	if first.Addr().String() == second.Addr().String() {
		s.Fatalf("both listen at %s", first.Addr())
	}
	go greet(first)
	go greet(second)
	if !gets(b, "direct", first.Addr().String(), true) || !gets(b, "direct", second.Addr().String(), true) {
		s.Error("one of two listeners is not reached")
	}
	first.Close()
	if gets(b, "direct", first.Addr().String(), false) {
		s.Error("a closed listener is reached")
	}
	if !gets(b, "direct", second.Addr().String(), true) {
		s.Error("the listener that is not closed is not reached")
	}
}

func checkListenMuch(s *suite.Scene) {
	const size, clients = 4 << 20, 8
	b := networked(s, suite.None)
	l := listen(b)
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
		if got, want := b.Run(script), strings.Repeat(fmt.Sprintln(size), clients); got != want {
			s.Errorf("the clients' bytes: %q, want %q", got, want)
		}
	})
	all.Wait()
}

func hostOf(l net.Listener) string { host, _, _ := net.SplitHostPort(l.Addr().String()); return host }
func portOf(l net.Listener) string { _, port, _ := net.SplitHostPort(l.Addr().String()); return port }

func checkListenMachine(s *suite.Scene) {
	b := networked(s, suite.None)
	l := listen(b)
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

func checkListenGone(s *suite.Scene) {
	b := networked(s, suite.None)
	l := listen(b)
	ended := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		ended <- err
	}()
	if err := b.Destroy(s.Ctx); err != nil {
		s.Fatalf("Destroy: %v", err)
	}
	s.Within("Accept after Destroy", func() {
		if err := <-ended; err == nil {
			s.Error("a connection came from an environment that is destroyed")
		}
	})
	_, err := environment.ListenLoopback(s.Ctx, b.Environment)
	s.WantKind("ListenLoopback", err, environment.KindLost)
}
