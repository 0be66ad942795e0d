package podinit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/providers/internal/mailbox"
)

// A container starts this program by these names. It begins here and not in main, so that most of
// the program is never made ready: that would count against the container's limits.
func init() {
	if len(os.Args) == 0 {
		return
	}
	var err error
	switch filepath.Base(os.Args[0]) {
	case filepath.Base(Program):
		below := len(os.Args) > 1 && os.Args[1] == Below
		if below {
			os.Args = slices.Delete(os.Args, 1, 2)
		}
		err = serve(socketOf(os.Args), below)
	case filepath.Base(Connector):
		err = carry(socketOf(os.Args))
	case filepath.Base(Courier):
		err = mail(socketOf(os.Args))
	case filepath.Base(Filler):
		err = fill(os.Args[1:])
	case Installer:
		if len(os.Args) != 2 {
			err = fmt.Errorf("use %s DIRECTORY", Installer)
			break
		}
		err = install(programs, os.Args[1])
	default:
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// install writes the program to dir, under the names by which containers start it: the program of
// pods that releases embed, or this one.
func install(programs fs.FS, dir string) error {
	var content io.Reader
	small, err := embedded(programs, runtime.GOARCH)
	switch {
	case err == nil:
		content = bytes.NewReader(small)
	case errors.Is(err, fs.ErrNotExist):
		own, err := os.Open("/proc/self/exe")
		if err != nil {
			return err
		}
		defer own.Close()
		content = own
	default:
		return err
	}
	program := filepath.Join(dir, filepath.Base(Program))
	file, err := os.OpenFile(program, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755) // #nosec G302 -- it is a program
	if err != nil {
		return err
	}
	if _, err := io.Copy(file, content); err != nil {
		return errors.Join(fmt.Errorf("copy this program: %w", err), file.Close())
	}
	if err := file.Close(); err != nil {
		return err
	}
	for _, name := range []string{Connector, Filler} {
		link := filepath.Join(dir, filepath.Base(name))
		if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.Link(program, link); err != nil {
			return err
		}
	}
	return nil
}

// socketName is the abstract socket of the guest, in the network of the container. Whoever can
// connect to it needs the client's secret.
const socketName = "@rollout-guest"

// socketOf returns the socket of the guest whose name is the argument, if there is one.
func socketOf(args []string) string {
	if len(args) < 2 {
		return socketName
	}
	return socketName + "-" + args[1]
}

// carry passes bytes between this process's input and output and the guest's socket, until one of
// them ends. No process of the container may look into it: a debugger would see no more than
// encrypted bytes, but could end the connection.
func carry(socket string) error {
	conn, err := dialGuest(socket)
	if err != nil {
		return err
	}
	ended := make(chan error, 2)
	go func() {
		_, err := io.Copy(conn, os.Stdin)
		ended <- err
	}()
	go func() {
		_, err := io.Copy(os.Stdout, conn)
		ended <- err
	}()
	return <-ended
}

func dialGuest(socket string) (net.Conn, error) {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // as said above, nothing depends on it
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("connect to the guest: %w", err)
	}
	return conn, nil
}

// mail brings a letter to the guest, and its answer back.
func mail(socket string) error {
	conn, err := dialGuest(socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	return mailbox.Carry(os.Stdin, os.Stdout, conn)
}
