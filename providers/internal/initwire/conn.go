//go:build linux

package initwire

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// inline is the longest message that travels in the socket itself, which has a limited buffer;
	// longer ones travel as a file in memory.
	maxInline = 32 << 10
	// maxMessage bounds the size of a message from the other side.
	maxMessage = 64 << 20
	// maxFiles bounds the files of one message.
	maxFiles = 8
)

// Conn is one end of a connection. Send may be called concurrently, Receive may not.
type Conn struct {
	file *os.File
	mu   sync.Mutex
}

// envelope is a message in the socket.
type envelope struct {
	Body json.RawMessage `json:"b,omitempty"`
	// Spilled: the first file holds the body.
	Spilled bool `json:"s,omitempty"`
}

// Pair returns this process's end of a new connection, and the file that another process is to
// inherit.
func Pair() (*Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket pair: %w", err)
	}
	return &Conn{file: os.NewFile(uintptr(fds[0]), "sandbox")}, os.NewFile(uintptr(fds[1]), "sandbox init"), nil
}

// FromFD returns the connection on a file descriptor that this process inherited. Children do not
// inherit it.
func FromFD(fd int) (*Conn, error) {
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("use the inherited socket: %w", err)
	}
	return &Conn{file: os.NewFile(uintptr(fd), "sandbox")}, nil
}

// Close ends the connection. A waiting Receive returns.
func (c *Conn) Close() error { return c.file.Close() }

// Send sends a message and copies of open files, which stay open here.
func (c *Conn) Send(message any, files ...*os.File) error {
	body, err := json.Marshal(message)
	if err != nil {
		return err
	}
	env := envelope{Body: body}
	if len(body) > maxInline {
		spill, err := memoryFile(body)
		if err != nil {
			return err
		}
		defer spill.Close()
		env, files = envelope{Spilled: true}, append([]*os.File{spill}, files...)
	}
	packet, err := json.Marshal(env)
	if err != nil {
		return err
	}
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	return c.send(packet, rights)
}

func (c *Conn) send(packet, rights []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	raw, err := c.file.SyscallConn()
	if err != nil {
		return err
	}
	var sending error
	err = raw.Write(func(fd uintptr) bool {
		sending = unix.Sendmsg(int(fd), packet, rights, nil, unix.MSG_NOSIGNAL)
		return !errors.Is(sending, unix.EAGAIN)
	})
	return errors.Join(err, sending)
}

// memoryFile returns a file in memory with this content.
func memoryFile(body []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("message", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "message")
	if _, err := f.WriteAt(body, 0); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Receive waits for a message, decodes it into message, and returns the files that came with it,
// which the caller closes. At the end of the connection it returns io.EOF.
func (c *Conn) Receive(message any) ([]*os.File, error) {
	packet := make([]byte, maxInline+1024)
	control := make([]byte, unix.CmsgSpace(4*maxFiles))
	raw, err := c.file.SyscallConn()
	if err != nil {
		return nil, err
	}
	var n, nc, flags int
	var receiving error
	err = raw.Read(func(fd uintptr) bool {
		n, nc, flags, _, receiving = unix.Recvmsg(int(fd), packet, control, unix.MSG_CMSG_CLOEXEC)
		return !errors.Is(receiving, unix.EAGAIN)
	})
	if err := errors.Join(err, receiving); err != nil {
		return nil, err
	}
	files, err := received(control[:nc])
	if err != nil {
		return nil, err
	}
	if n == 0 {
		closeAll(files)
		return nil, io.EOF
	}
	if flags&(unix.MSG_CTRUNC|unix.MSG_TRUNC) != 0 {
		closeAll(files)
		return nil, errors.New("a message arrived without all of its files: there are too many open files")
	}
	var env envelope
	err = json.Unmarshal(packet[:n], &env)
	if err == nil && env.Spilled {
		env.Body, files, err = unspill(files)
	}
	if err == nil {
		err = json.Unmarshal(env.Body, message)
	}
	if err != nil {
		closeAll(files)
		return nil, fmt.Errorf("read a message: %w", err)
	}
	return files, nil
}

// unspill reads the body from the first file and returns the others.
func unspill(files []*os.File) ([]byte, []*os.File, error) {
	if len(files) == 0 {
		return nil, nil, errors.New("the message's file is missing")
	}
	defer files[0].Close()
	body, err := io.ReadAll(io.NewSectionReader(files[0], 0, maxMessage))
	return body, files[1:], err
}

func received(control []byte) ([]*os.File, error) {
	if len(control) == 0 {
		return nil, nil
	}
	parsed, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, fmt.Errorf("read the files of a message: %w", err)
	}
	var files []*os.File
	for i := range parsed {
		fds, err := unix.ParseUnixRights(&parsed[i])
		if err != nil {
			closeAll(files)
			return nil, fmt.Errorf("read the files of a message: %w", err)
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
