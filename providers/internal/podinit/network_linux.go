package podinit

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/providers/internal/initwire"
)

// maxConnections bounds the connections to a listener; more wait.
const maxConnections = 512

// listen opens a port of the loopback device. For each connection to it the client gets a stream.
func (s *server) listen(ctx context.Context) (reply, error) {
	socket, _, err := s.client.CallForFile(ctx, initwire.Request{Op: initwire.Listen})
	if err != nil {
		return reply{}, err
	}
	defer socket.Close()
	listener, err := net.FileListener(socket)
	if err != nil {
		return reply{}, err
	}
	address := listener.Addr()
	at, ok := address.(*net.TCPAddr)
	if !ok {
		listener.Close()
		return reply{}, fmt.Errorf("the socket listens on %s", address)
	}
	id := int64(at.Port)
	s.mu.Lock()
	s.listeners[id] = listener
	s.mu.Unlock()
	go s.carryConnections(id, listener)
	return reply{Address: address.String()}, nil
}

func (s *server) closeListener(id int64) error {
	s.mu.Lock()
	listener := s.listeners[id]
	delete(s.listeners, id)
	s.mu.Unlock()
	if listener == nil {
		return nil
	}
	return listener.Close()
}

func (s *server) carryConnections(id int64, listener net.Listener) {
	defer listener.Close()
	open := make(chan struct{}, maxConnections)
	for {
		open <- struct{}{}
		conn, err := accept(listener)
		if err != nil {
			return
		}
		go func() {
			s.carryConnection(id, conn)
			<-open
		}()
	}
}

// carryConnection passes one connection on to the client.
func (s *server) carryConnection(id int64, conn net.Conn) {
	defer conn.Close()
	s.mu.Lock()
	session := s.session
	s.mu.Unlock()
	stream, err := session.OpenStream()
	if err != nil {
		return
	}
	defer stream.Close()
	if writeMessage(stream, request{Op: opConnection, ID: id}) != nil {
		return
	}
	x := newExchange()
	s.mu.Lock()
	s.exchanges[x] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.exchanges, x)
		s.mu.Unlock()
	}()
	var both sync.WaitGroup
	both.Go(func() {
		_, err := io.Copy(noted{conn.Write, x.tell}, stream)
		closeWriting(conn)
		if err != nil {
			conn.Close()
		}
	})
	if _, err := io.Copy(noted{stream.Write, x.ask}, conn); err != nil { // the connection was reset
		conn.Close()
	}
	stream.Close() // for writing only
	both.Wait()
}

// closeWriting says that no more comes.
func closeWriting(conn net.Conn) {
	if c, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite() // the other side has gone
	}
}

// reach tries to connect.
func (s *server) reach(ctx context.Context, r request) (reply, error) {
	if _, err := netip.ParseAddrPort(r.Address); err != nil {
		return reply{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.Within)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", r.Address)
	switch {
	case err == nil:
		conn.Close()
		return reply{Yes: true}, nil
	case isUnreached(err):
		return reply{}, nil
	}
	return reply{}, err
}

// isUnreached reports whether an attempt to connect failed because of the network, and not for lack
// of resources of this process, whose limits may have been lowered.
func isUnreached(err error) bool {
	for _, known := range []error{unix.ECONNREFUSED, unix.ECONNRESET, unix.ENETUNREACH, unix.EHOSTUNREACH, unix.ENETDOWN, unix.EPERM, unix.EACCES, unix.EADDRNOTAVAIL, unix.EAFNOSUPPORT} {
		if errors.Is(err, known) {
			return true
		}
	}
	failure := net.Error(nil)
	return errors.As(err, &failure) && failure.Timeout()
}

// The states of a connection in which nothing can be sent or received yet, or any more, that of
// listeners, and that of UDP sockets without a remote address. Source: the kernel's
// include/net/tcp_states.h.
var idleStates = []string{"02", "06", "07", "0A"}

// socketLists are the files of /proc/net that list sockets by which processes may exchange
// something with others.
var socketLists = []string{"tcp", "tcp6", "udp", "udp6", "raw", "raw6", "packet"}

// openSocket returns the open socket that a line of a list describes, if it may lead beyond the
// loopback device. Sockets that a process has closed and the kernel finishes alone have inode 0.
func openSocket(list, line string) (string, bool) {
	fields := strings.Fields(line)
	switch {
	case len(fields) < 9 || fields[0] == "sl" || fields[0] == "sk": // the heading
		return "", false
	case list == "packet":
		return "a packet socket", true
	case list == "raw" || list == "raw6":
		return "a raw socket", true
	case len(fields) < 10 || slices.Contains(idleStates, fields[3]) || fields[9] == "0":
		return "", false
	}
	remote, err := parseEndpoint(fields[2])
	if err != nil || remote.Addr().IsLoopback() || remote.Addr().IsUnspecified() {
		return "", false
	}
	return fmt.Sprintf("a connection (%s) to %s", list[:3], remote), true
}

// connections lists the sockets of the container, see Environment.Connections.
func connections() (reply, error) {
	var out []string
	for _, name := range socketLists {
		list, err := os.Open("/proc/1/net/" + name)
		if errors.Is(err, os.ErrNotExist) {
			continue // a kernel without IPv6, or without packet sockets
		}
		if err != nil {
			return reply{}, err
		}
		scanner := bufio.NewScanner(list)
		for scanner.Scan() {
			if what, open := openSocket(name, scanner.Text()); open {
				out = append(out, what)
			}
		}
		list.Close()
		if err := scanner.Err(); err != nil {
			return reply{}, fmt.Errorf("read %s: %w", list.Name(), err)
		}
	}
	slices.Sort(out)
	return reply{List: slices.Compact(out)}, nil
}

// parseEndpoint parses an address as in /proc/net/tcp: words of four bytes in the machine's order,
// which is that of all machines for which Rollout is built (little-endian), and a port.
func parseEndpoint(text string) (netip.AddrPort, error) {
	address, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(address)
	if err != nil {
		return netip.AddrPort{}, err
	}
	for i := 0; i+4 <= len(raw); i += 4 {
		slices.Reverse(raw[i : i+4])
	}
	addr, ok := netip.AddrFromSlice(raw)
	number, err := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil {
		return netip.AddrPort{}, fmt.Errorf("no address: %q", text)
	}
	return netip.AddrPortFrom(addr.Unmap(), uint16(number)), nil
}

// oomKills returns how many processes of the container were killed because it exceeded its memory
// limit.
func oomKills() int {
	for _, name := range []string{"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"} {
		list, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(list)) {
			if text, ok := strings.CutPrefix(line, "oom_kill "); ok {
				n, _ := strconv.Atoi(strings.TrimSpace(text))
				return n
			}
		}
	}
	return 0
}
