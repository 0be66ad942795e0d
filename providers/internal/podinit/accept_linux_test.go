package podinit

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// lacking is a listener that fails some times for lack of something.
type lacking struct {
	net.Listener
	errs []error
}

func (l *lacking) Accept() (net.Conn, error) {
	if len(l.errs) == 0 {
		conn, _ := net.Pipe()
		return conn, nil
	}
	err := l.errs[0]
	l.errs = l.errs[1:]
	return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", err)}
}

func TestAcceptRetriesWithoutFilesOrMemory(t *testing.T) {
	l := &lacking{errs: []error{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM}}
	if conn, err := accept(l); err != nil || conn == nil {
		t.Errorf("got %v", err)
	}
	l = &lacking{errs: []error{net.ErrClosed}}
	if _, err := accept(l); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a closed listener: %v", err)
	}
}

func TestOldestStrangerMakesRoom(t *testing.T) {
	var s strangers
	var own, theirs []net.Conn
	for range maxStrangers + 2 {
		a, b := net.Pipe()
		own, theirs = append(own, a), append(theirs, b)
		s.add(a)
		if len(own) == 2 {
			s.remove(a) // it has said who it is
		}
	}
	for i, conn := range theirs {
		open := make(chan bool, 1)
		go func() {
			_, err := own[i].Write([]byte{1})
			open <- err == nil
		}()
		_, err := io.ReadFull(conn, make([]byte, 1))
		if got, want := <-open && err == nil, i != 0; got != want {
			t.Errorf("connection %d is open: %t, want %t", i, got, want)
		}
	}
}
