// Package relay carries connections out of a container that has no network: it listens on the
// container's loopback device, and passes what connects on over its input and output. It knows
// nothing of who may connect to what: that is decided at the other end.
package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
)

// Role is the name that this program is started by to be a relay: that of its file, for an engine
// does not let callers choose another.
const Role = "rollout-relay"

// writeTime is how long one end waits for the other to read. A container may have little of the
// processor.
const writeTime = 5 * time.Minute

// It begins here and not in main, so that most of the program is never made ready: it is counted
// against the container's limits.
func init() {
	if filepath.Base(os.Args[0]) == Role {
		fmt.Fprintln(os.Stderr, serve())
		os.Exit(1)
	}
}

// configuration is the same at both ends. Keep-alives are off: the pipes end with the other end.
func configuration() *yamux.Config {
	c := yamux.DefaultConfig()
	c.EnableKeepAlive = false
	c.ConnectionWriteTimeout = writeTime
	c.LogOutput = io.Discard
	return c
}

// serve is the main function of a relay. It returns only an error that keeps it from working.
func serve() error {
	listener, err := net.Listen("tcp4", "127.0.0.1:0") //nolint:noctx // it takes no time
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return err
	}
	if _, err := fmt.Println(port); err != nil {
		return err
	}
	session, err := yamux.Client(stdio{}, configuration())
	if err != nil {
		return err
	}
	go func() {
		<-session.CloseChan()
		os.Exit(0)
	}()
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go carry(session, conn.(*net.TCPConn))
	}
}

// carry forwards one connection.
func carry(session *yamux.Session, conn *net.TCPConn) {
	defer conn.Close()
	stream, err := session.OpenStream()
	if err != nil {
		return
	}
	defer stream.Close()
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(conn, stream)
		_ = conn.CloseWrite()
	})
	_, _ = io.Copy(stream, conn)
	_ = stream.Close() // for writing only
	both.Wait()
}

// stdio is the connection to the other end.
type stdio struct{}

func (stdio) Read(b []byte) (int, error)  { return os.Stdin.Read(b) }
func (stdio) Write(b []byte) (int, error) { return os.Stdout.Write(b) }
func (stdio) Close() error                { return errors.Join(os.Stdin.Close(), os.Stdout.Close()) }

// maxLine bounds what is read instead of a port: an engine says there why it could not start the
// relay.
const maxLine = 1000

// Accept waits for a relay to say the port at which it listens, and is the listener that gets what
// connects there. conn is its output and input, and closed with the listener. What comes from a
// relay is hostile: a container's root can be one.
func Accept(conn io.ReadWriteCloser) (net.Listener, uint16, error) {
	var line strings.Builder
	for one := make([]byte, 1); line.Len() < maxLine; line.Write(one) {
		if _, err := io.ReadFull(conn, one); err != nil && line.Len() == 0 {
			return nil, 0, fmt.Errorf("wait for the relay: %w", err)
		} else if err != nil {
			return nil, 0, fmt.Errorf("the relay says %q instead of its port: %w", line.String(), err)
		}
		if one[0] == '\n' {
			break
		}
	}
	port, err := strconv.ParseUint(line.String(), 10, 16)
	if err != nil || port == 0 {
		return nil, 0, fmt.Errorf("the relay says %q instead of its port", line.String())
	}
	session, err := yamux.Server(conn, configuration())
	if err != nil {
		return nil, 0, err
	}
	return session, uint16(port), nil
}

// Answers reports whether the relay at the other end of a listener that Accept returned still
// works. It waits for the answer of a busy one, or for the end of its connection, until ctx ends.
func Answers(ctx context.Context, l net.Listener) bool {
	session, ok := l.(*yamux.Session)
	if !ok {
		return false
	}
	answer := make(chan error, 1)
	go func() {
		_, err := session.Ping()
		answer <- err
	}()
	select {
	case err := <-answer:
		return err == nil
	case <-ctx.Done():
		return false
	}
}
