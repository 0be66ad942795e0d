package appletest

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
)

// socketVariable names the socket of the service, in the program's environment.
const socketVariable = "ROLLOUT_APPLETEST_SOCKET"

// The frames between the program and the service: a letter, a length and as many bytes.
const (
	frameArgs   = 'a' // a request
	frameStdin  = 'i' // empty: the end
	frameStdout = 'o'
	frameStderr = 'e'
	frameExit   = 'x'
)

// request is how the program was called.
type request struct {
	Args []string
	Dir  string
}

func writeFrame(w io.Writer, kind byte, data []byte) error {
	head := make([]byte, 5, 5+len(data))
	head[0] = kind
	binary.BigEndian.PutUint32(head[1:], uint32(len(data)))
	_, err := w.Write(append(head, data...))
	return err
}

func readFrame(r io.Reader) (kind byte, data []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	data = make([]byte, binary.BigEndian.Uint32(head[1:]))
	_, err = io.ReadFull(r, data)
	return head[0], data, err
}

// frames writes frames of a kind.
type frames struct {
	mu   *sync.Mutex
	conn io.Writer
	kind byte
}

// Write implements io.Writer.
func (f frames) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(p), writeFrame(f.conn, f.kind, p)
}

// Called reports whether this process was started as the program; then Main runs it. TestMain asks
// before all else.
func Called() bool { return os.Getenv(socketVariable) != "" }

// Main passes the program's arguments and streams to the service, and returns the exit code.
func Main() int {
	code, err := call()
	if err != nil {
		fmt.Fprintln(os.Stderr, "appletest:", err)
		return 99
	}
	return code
}

func call() (int, error) {
	conn, err := new(net.Dialer).DialContext(context.Background(), "unix", os.Getenv(socketVariable)) // #nosec G704 -- of install
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	dir, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	text, err := json.Marshal(request{os.Args[1:], dir})
	if err == nil {
		err = writeFrame(conn, frameArgs, text)
	}
	if err != nil {
		return 0, err
	}
	go func() {
		_, _ = io.Copy(frames{&sync.Mutex{}, conn, frameStdin}, struct{ io.Reader }{os.Stdin})
		_ = writeFrame(conn, frameStdin, nil) // it may have ended
	}()
	for {
		kind, data, err := readFrame(conn)
		if err != nil {
			return 0, err
		}
		switch kind {
		case frameStdout:
			_, err = os.Stdout.Write(data)
		case frameStderr:
			_, err = os.Stderr.Write(data)
		case frameExit:
			return int(data[0]), nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// install writes the program into a directory: this process's own, with the socket.
func install(dir, socket string) (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "container")
	script := fmt.Sprintf("#!/bin/sh\n%s='%s' exec '%s' \"$@\"\n", socketVariable, socket, own)
	return program, os.WriteFile(program, []byte(script), 0o700) // #nosec G306 -- a program
}

var errGone = errors.New("the command has ended")
