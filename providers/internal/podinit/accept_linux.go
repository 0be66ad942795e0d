package podinit

import (
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/providers/internal/processes"
)

// acceptPause is the time between two attempts to accept a connection.
const acceptPause = 50 * time.Millisecond

// accept returns the next connection to a listener. It waits while this process or the machine
// lacks resources.
func accept(l net.Listener) (net.Conn, error) {
	for {
		conn, err := l.Accept()
		if !slices.ContainsFunc([]error{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM}, func(lack error) bool { return errors.Is(err, lack) }) {
			return conn, err
		}
		time.Sleep(acceptPause)
	}
}

// fromInside reports whether a process of the container made a connection, and not a connector.
// That is started from outside, where its parent is, and lives as long as its connection. Where the
// system does not say it, a connection is not from inside. A guest that is not process 1 takes its
// descendants for those inside.
func (s *server) fromInside(conn net.Conn) bool {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	var peer *unix.Ucred
	_ = raw.Control(func(fd uintptr) { peer, _ = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if peer == nil || peer.Pid <= 1 { // of another namespace; gVisor names the process that asks
		return false
	}
	if s.below {
		inside, err := processes.Descends(int(peer.Pid))
		return err == nil && inside
	}
	parent, err := processes.Parent(int(peer.Pid))
	return parent != 0 || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH)
}

// maxStrangers bounds the connections that are not identified yet.
const maxStrangers = 16

// strangers holds the connections that are not identified yet. The oldest one ends if there are too
// many.
type strangers struct {
	mu    sync.Mutex
	conns []net.Conn
}

func (s *strangers) add(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) == maxStrangers {
		s.conns[0].Close()
		s.conns = slices.Delete(s.conns, 0, 1)
	}
	s.conns = append(s.conns, conn)
}

func (s *strangers) remove(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = slices.DeleteFunc(s.conns, func(other net.Conn) bool { return other == conn })
}
