package egress

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// tunnel serves a CONNECT request.
func (p *Proxy) tunnel(w http.ResponseWriter, r *http.Request) {
	t, err := parseTarget(r.Host, 0)
	if err != nil {
		writeError(w, err)
		return
	}
	there, err := p.connect(r.Context(), t)
	if err != nil {
		writeError(w, err)
		return
	}
	defer there.Close()
	here, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer here.Close()
	_ = here.SetDeadline(time.Time{}) // of the header
	if _, err := io.WriteString(here, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	p.join(here, buffered.Reader, there, t)
}

// join copies bytes in both directions until both have ended or one has failed.
func (p *Proxy) join(here net.Conn, fromHere *bufio.Reader, there net.Conn, t target) {
	var both sync.WaitGroup
	both.Go(func() {
		if _, err := io.Copy(here, there); err != nil || closeWrite(here) != nil {
			_ = here.Close()
		}
	})
	if err := p.send(there, fromHere, t); err != nil || closeWrite(there) != nil {
		_ = there.Close()
	}
	both.Wait()
}

// send copies data from a client to the target. TLS must ask for a listed name: one server often
// has many names, and a listed one would lead to others that are not listed. Data that begins like
// TLS, and all data on ports of TLS, must begin with a complete ClientHello.
func (p *Proxy) send(there io.Writer, from *bufio.Reader, t target) error {
	check, err := mustHello(t.port, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if from.Buffered() == 0 { // it ended without sending anything
		return nil
	}
	policy, refused, _ := p.current()
	if check && !t.addr.IsValid() {
		name, seen, err := readHello(from)
		var no *Refusal
		switch name = canonical(name); {
		case errors.Is(err, errNoHello), errors.Is(err, errECH):
			no = t.refused(true, "%v", err)
		case err != nil:
			return err
		case name != "" && !policy.listsName(name, t.port):
			no = target{host: printable(name), port: t.port}.refused(false, notListed)
		}
		if no != nil {
			if refused != nil {
				refused(*no)
			}
			return no
		}
		if _, err := there.Write(seen); err != nil {
			return err
		}
	}
	_, err = io.Copy(there, from)
	return err
}

// printable returns the name that TLS asks for, or a description if it is not a valid name.
func printable(name string) string {
	if checkName(name) != "" {
		return "an invalid name"
	}
	return name
}

// closeWrite closes the sending half of a connection. It fails if the connection cannot do that.
func closeWrite(c net.Conn) error {
	half, ok := c.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// upstream is a connection to a target. It fails after it was idle in both directions for
// quietTime.
type upstream struct {
	net.Conn
	proxy *Proxy
	last  atomic.Int64 // Unix nanoseconds
}

func (u *upstream) touch() { u.last.Store(time.Now().UnixNano()) }

func (u *upstream) Read(b []byte) (int, error) {
	for {
		_ = u.SetReadDeadline(time.Unix(0, u.last.Load()).Add(quietTime))
		n, err := u.Conn.Read(b)
		if n > 0 {
			u.touch()
		}
		// Bytes that were written meanwhile count, too.
		if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && time.Since(time.Unix(0, u.last.Load())) < quietTime {
			continue
		}
		return n, err
	}
}

func (u *upstream) Write(b []byte) (int, error) {
	_ = u.SetWriteDeadline(time.Now().Add(quietTime))
	n, err := u.Conn.Write(b)
	if n > 0 {
		u.touch()
	}
	return n, err
}

func (u *upstream) CloseWrite() error { return closeWrite(u.Conn) }

func (u *upstream) Close() error {
	u.proxy.forget(u)
	return u.Conn.Close()
}
