package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// served is a listening proxy with its refusals.
type served struct {
	*Proxy
	at string

	mu      sync.Mutex
	refused []string
}

func serve(t testing.TB) *served {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &served{Proxy: New(), at: l.Addr().String()}
	served := make(chan error, 1)
	go func() { served <- d.Serve(l) }()
	t.Cleanup(func() {
		if err := errors.Join(d.Close(), <-served); err != nil {
			t.Error(err)
		}
	})
	return d
}

func (d *served) allow(t testing.TB, hosts ...string) {
	t.Helper()
	policy, err := Parse(hosts)
	if err != nil {
		t.Fatal(err)
	}
	d.Set(policy, func(r Refusal) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.refused = append(d.refused, fmt.Sprintf("%s:%d %t", r.Host, r.Port, r.Listed))
	})
}

func (d *served) wantRefused(t testing.TB, want ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if fmt.Sprint(d.refused) != fmt.Sprint(want) {
		t.Errorf("refused %q, want %q", d.refused, want)
	}
	d.refused = nil
}

// client returns a client that uses the proxy. It keeps no connections, and trusts the test's
// server.
func (d *served) client(roots *x509.CertPool) *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy:             http.ProxyURL(&url.URL{Scheme: "http", Host: d.at}),
		TLSClientConfig:   &tls.Config{RootCAs: roots},
		DisableKeepAlives: true,
	}}
}

func get(t testing.TB, c *http.Client, address string) (int, string, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

func hello(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello %s", r.Host) }

func hostOf(s *httptest.Server) string { return s.Listener.Addr().String() }

// resolve makes the proxy find these addresses, by name.
func (d *served) resolve(names map[string]string) {
	d.find = func(_ context.Context, name string) ([]netip.Addr, error) {
		if addr, ok := names[name]; ok {
			return []netip.Addr{netip.MustParseAddr(addr)}, nil
		}
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
}

func TestOnlyListedHostsAreReached(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(hello))
	defer server.Close()
	d := serve(t)
	client := d.client(nil)
	code, body, err := get(t, client, server.URL)
	if err != nil || code != 403 || !strings.Contains(body, "allowed_hosts does not list it") {
		t.Errorf("with nothing listed: %d, %q, %v", code, body, err)
	}
	d.allow(t, hostOf(server))
	if code, body, err := get(t, client, server.URL); err != nil || code != 200 || body != "hello "+hostOf(server) {
		t.Errorf("listed: %d, %q, %v", code, body, err)
	}
	d.wantRefused(t)
	other := httptest.NewServer(http.HandlerFunc(hello))
	defer other.Close()
	if code, _, err := get(t, client, other.URL); err != nil || code != 403 {
		t.Errorf("another port: %d, %v", code, err)
	}
	d.wantRefused(t, hostOf(other)+" false")
}

func TestNamesDoNotLeadToThisMachine(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(hello))
	defer server.Close()
	_, port, _ := net.SplitHostPort(hostOf(server))
	address := "http://api.example:" + port
	d := serve(t)
	d.resolve(map[string]string{"api.example": "127.0.0.1", "meta.example": "169.254.169.254", "six.example": "::ffff:127.0.0.1"})
	d.allow(t, "api.example:"+port, "meta.example", "six.example:"+port)
	for _, address := range []string{address, "http://meta.example", "http://six.example:" + port} {
		code, body, err := get(t, d.client(nil), address)
		if err != nil || code != 403 || !strings.Contains(body, "list the address as well") {
			t.Errorf("%s: %d, %q, %v", address, code, body, err)
		}
	}
	d.wantRefused(t, "api.example:"+port+" true", "meta.example:80 true", "six.example:"+port+" true")
	// The address itself is meant.
	d.allow(t, "api.example:"+port, hostOf(server))
	if code, body, err := get(t, d.client(nil), address); err != nil || code != 200 || body != "hello api.example:"+port {
		t.Errorf("with the address listed: %d, %q, %v", code, body, err)
	}
}

// If a name has a different address in each lookup, the connection goes to the checked address.
func TestNamesAreLookedUpOnce(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(hello))
	defer server.Close()
	_, port, _ := net.SplitHostPort(hostOf(server))
	d := serve(t)
	times := 0
	d.find = func(context.Context, string) ([]netip.Addr, error) {
		times++
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	d.allow(t, "rebind.example:"+port, hostOf(server))
	if code, _, err := get(t, d.client(nil), "http://rebind.example:"+port); err != nil || code != 200 || times != 1 {
		t.Errorf("%d, %v, looked up %d times", code, err, times)
	}
}

func TestUnknownNamesAreNotRefusals(t *testing.T) {
	d := serve(t)
	d.resolve(nil)
	d.allow(t, "nowhere.example")
	code, body, err := get(t, d.client(nil), "http://nowhere.example")
	if err != nil || code != 502 || !strings.Contains(body, "no such host") {
		t.Errorf("%d, %q, %v", code, body, err)
	}
	d.wantRefused(t)
}

// certified is a TLS server with the configuration of a client that trusts it.
func certified(t *testing.T) (*httptest.Server, *x509.CertPool) {
	server := httptest.NewTLSServer(http.HandlerFunc(hello))
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate()) // for example.com and 127.0.0.1
	return server, roots
}

func TestTLSMustAskForListedNames(t *testing.T) {
	server, roots := certified(t)
	_, port, _ := net.SplitHostPort(hostOf(server))
	d := serve(t)
	d.resolve(map[string]string{"example.com": "127.0.0.1", "front.example": "127.0.0.1"})
	d.allow(t, "example.com:"+port, "front.example:"+port, hostOf(server))
	client := d.client(roots)
	if code, body, err := get(t, client, "https://example.com:"+port); err != nil || code != 200 || !strings.Contains(body, "hello") {
		t.Errorf("the same name: %d, %q, %v", code, body, err)
	}
	if code, _, err := get(t, client, server.URL); err != nil || code != 200 { // an address: TLS asks for nothing
		t.Errorf("by address: %d, %v", code, err)
	}
	d.allow(t, "front.example:"+port, hostOf(server))
	conn := d.connect(t, "front.example:"+port)
	inside := tls.Client(conn, &tls.Config{ServerName: "example.com", RootCAs: roots})
	if err := inside.HandshakeContext(t.Context()); err == nil {
		t.Error("TLS reached a name that is not listed")
	}
	d.wantRefused(t, "example.com:"+port+" false")
}

// connect opens a tunnel that must be granted.
func (d *served) connect(t testing.TB, host string) net.Conn {
	t.Helper()
	conn, answer := d.ask(t, "CONNECT "+host+" HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
	if !strings.Contains(answer, " 200 ") {
		t.Fatalf("CONNECT %s: %s", host, answer)
	}
	return conn
}

// ask sends a request as it is and returns the first line of the answer; the connection has what
// follows the header.
func (d *served) ask(t testing.TB, request string) (net.Conn, string) {
	t.Helper()
	conn, err := net.Dial("tcp", d.at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	first, err := reader.ReadString('\n')
	if err != nil {
		t.Fatalf("%q has no answer: %v", request, err)
	}
	for line := "-"; strings.TrimSpace(line) != ""; {
		if line, err = reader.ReadString('\n'); err != nil {
			break
		}
	}
	return bufferedConn{conn, reader}, strings.TrimSpace(first)
}

type bufferedConn struct {
	net.Conn
	reader io.Reader
}

func (c bufferedConn) Read(b []byte) (int, error) { return c.reader.Read(b) }

func (c bufferedConn) CloseWrite() error { return c.Conn.(*net.TCPConn).CloseWrite() }

func TestInvalidProxyRequests(t *testing.T) {
	d := serve(t)
	d.allow(t, "example.com")
	for request, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n":                       "400",
		"GET https://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n":    "400",
		"GET ftp://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n":      "400",
		"GET http://169.254.169.254/ HTTP/1.1\r\nHost: example.com\r\n\r\n": "403",
		"GET http://a\x1b[2J/ HTTP/1.1\r\nHost: example.com\r\n\r\n":        "400",
		"CONNECT example.com HTTP/1.1\r\nHost: example.com\r\n\r\n":         "400",
		"CONNECT 10.0.0.1:443 HTTP/1.1\r\nHost: example.com\r\n\r\n":        "403",
		"CONNECT 2130706433:80 HTTP/1.1\r\nHost: example.com\r\n\r\n":       "400",
		"nonsense\r\n\r\n": "400",
		"GET http://example.com/ HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 80<<10) + "\r\n": "431",
	} {
		if _, answer := d.ask(t, request); !strings.Contains(answer, " "+want) {
			t.Errorf("%.80q: %s, want %s", request, answer, want)
		}
	}
}

// A header that names another host does not change where a request goes.
func TestHostHeaderIsIgnored(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(hello))
	defer server.Close()
	d := serve(t)
	d.allow(t, hostOf(server))
	conn, answer := d.ask(t, "GET http://"+hostOf(server)+"/ HTTP/1.1\r\nHost: other.example\r\nConnection: close\r\n\r\n")
	body, _ := io.ReadAll(conn)
	if !strings.Contains(answer, "200") || !strings.Contains(string(body), "hello "+hostOf(server)) {
		t.Errorf("%s: %q", answer, body)
	}
}

// echo starts a server that sends its input back until the end, and returns its address.
func echo(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return l.Addr().String()
}

func TestTunnelCopiesBothWaysUntilTheEnd(t *testing.T) {
	host := echo(t)
	d := serve(t)
	d.allow(t, host)
	conn := d.connect(t, host)
	const size = 5 << 20
	go func() {
		_, _ = io.CopyN(conn, zeros{}, size)
		_ = conn.(bufferedConn).CloseWrite()
	}()
	if n, err := io.Copy(io.Discard, conn); err != nil || n != size {
		t.Errorf("%d bytes came back, want %d: %v", n, size, err)
	}
	p := d.Proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.conns) > 1 { // it may be about to go
		t.Errorf("%d connections are kept", len(p.conns))
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestSetClosesConnections(t *testing.T) {
	host := echo(t)
	d := serve(t)
	d.allow(t, host)
	conn := d.connect(t, host)
	one := make([]byte, 1)
	if _, err := conn.Write(one); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, one); err != nil {
		t.Fatal(err)
	}
	d.Set(Policy{}, nil)
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := conn.Read(one); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the connection lives on: %v", err)
	}
	if _, answer := d.ask(t, "CONNECT "+host+" HTTP/1.1\r\nHost: "+host+"\r\n\r\n"); !strings.Contains(answer, "403") {
		t.Errorf("a new one: %s", answer)
	}
}

// A connection that is being made while the policy changes fails.
func TestSetDuringALookup(t *testing.T) {
	host := echo(t)
	_, port, _ := net.SplitHostPort(host)
	d := serve(t)
	asked, proceed := make(chan struct{}), make(chan struct{})
	d.find = func(context.Context, string) ([]netip.Addr, error) {
		close(asked)
		<-proceed
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	d.allow(t, "slow.example:"+port, host)
	answered := make(chan string)
	go func() {
		_, answer := d.ask(t, "CONNECT slow.example:"+port+" HTTP/1.1\r\nHost: x\r\n\r\n")
		answered <- answer
	}()
	<-asked
	d.Set(Policy{}, nil)
	close(proceed)
	if answer := <-answered; !strings.Contains(answer, "502") {
		t.Errorf("got %s", answer)
	}
}

func TestConnectionsBeyondTheBoundWait(t *testing.T) {
	host := echo(t)
	d := serve(t)
	d.allow(t, host)
	var open []net.Conn
	for range maxConns {
		open = append(open, d.connect(t, host))
	}
	late := make(chan string)
	go func() {
		_, answer := d.ask(t, "CONNECT "+host+" HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
		late <- answer
	}()
	open[0].Close()
	if answer := <-late; !strings.Contains(answer, "200") {
		t.Errorf("got %s", answer)
	}
}

func BenchmarkTunnel(b *testing.B) {
	const size = 50 << 20
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.CopyN(w, zeros{}, size) }))
	defer server.Close()
	d := serve(b)
	d.allow(b, hostOf(server))
	for name, dial := range map[string]func() net.Conn{
		"bare": func() net.Conn {
			conn, err := net.Dial("tcp", hostOf(server))
			if err != nil {
				b.Fatal(err)
			}
			return conn
		},
		"through the proxy": func() net.Conn { return d.connect(b, hostOf(server)) },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				conn := dial()
				fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
				if n, err := io.Copy(io.Discard, conn); err != nil || n < size {
					b.Fatal(n, err)
				}
				conn.Close()
			}
		})
	}
}
