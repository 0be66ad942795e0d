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

// BashClient is Options.NetworkClient for environments with a real bash. fetch behaves like
// programs that support proxies.
const BashClient = `
request() { # VIA TARGET HOST
	local code line
	{
		printf 'GET %s HTTP/1.0\r\nHost: %s\r\n\r\n' "$2" "$3" >&7
		read -r _ code _ <&7
		[ "$code" = 200 ] || return 22
		while read -r line <&7 && [ -n "${line%$'\r'}" ]; do :; done
		cat <&7
	} 7<>"/dev/tcp/${1%:*}/${1##*:}"
}
# What drops packets, as the networks of clusters do, lets a connection fail after minutes only. The shell variable
# patience may ask for another limit than 10 seconds.
direct() { timeout "${patience:-10}" bash -c "$(declare -f request); request \"\$1\" / \"\$1\"" bash "$1"; }
fetch() { if [ -n "$http_proxy" ]; then request "${http_proxy#http://}" "http://$1/" "$1"; else direct "$1"; fi; }
serve() { # PORT
	read -r < <(exec perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(Listen => 9, ReuseAddr => 1, LocalAddr => "127.0.0.1:$ARGV[0]") or die "$!";
		print "listens\n"; close STDOUT;
		while ($c = $s->accept) { while (<$c>) { last if /^\s*$/ } print $c "HTTP/1.0 200 OK\r\n\r\nhello\n"; close $c }' "$1" 2>/dev/null)
}
stream() { if [ -n "$http_proxy" ]; then request "${http_proxy#http://}" "http://$1/stream" "$1"; else request "$1" /stream "$1"; fi; }
`
