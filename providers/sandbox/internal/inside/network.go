//go:build linux

package inside

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/providers/internal/processes"
	"github.com/org/rollout-action/providers/sandbox/internal/wire"
)

// network answers a request about the sandbox's network. It runs on the process's first thread, to which Go keeps what
// runs before main.
func (s *server) network(request wire.Request) {
	answer := wire.Answer{ID: request.ID}
	var files []*os.File
	var err error
	if request.Op == wire.Isolate {
		err = s.isolate()
	} else {
		var socket *os.File
		if socket, err = listen(); err == nil {
			files = append(files, socket)
		}
	}
	if err != nil {
		answer.Kind, answer.Problem = kindOf(err), err.Error()
	}
	err = s.conn.Send(answer, files...)
	closeFiles(files)
	if err != nil {
		os.Exit(1)
	}
}

// isolate leaves the machine's network. The first thread is the one that /proc/1/net is about, and mounts show the
// network of the thread that makes them; what starts commands follows it. Other threads stay where they are, and do
// nothing there. What ran before could not be moved and may hold connections, so it is ended.
func (s *server) isolate() error {
	runtime.LockOSThread() // it is locked already, as long as this is called before main
	if unix.Gettid() != unix.Getpid() {
		return fmt.Errorf("thread %d is not the first of process %d", unix.Gettid(), unix.Getpid())
	}
	ctx, cancel := context.WithTimeout(context.Background(), killTime)
	defer cancel()
	if err := processes.KillAll(ctx); err != nil {
		return fmt.Errorf("%w: %w", errAlive, err)
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make a network of the sandbox's own: %w", err)
	}
	if err := loopbackUp(); err != nil {
		return err
	}
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return fmt.Errorf("find the sandbox's own network: %w", err)
	}
	defer own.Close()
	err = s.children.newThread(func() error {
		return os.NewSyscallError("enter the sandbox's own network", unix.Setns(int(own.Fd()), unix.CLONE_NEWNET))
	})
	if err != nil {
		return err
	}
	showOwnDevices()
	return nil
}

// showOwnDevices replaces /sys, which shows the devices of the machine's network. Where that is not allowed, their names
// stay to be seen; they are of no use.
func showOwnDevices() {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_RDONLY
	_ = unix.Mount("sysfs", "/sys", "sysfs", flags, "")
}

// listen opens a socket on the loopback device of this thread's network, at a port that is free. Not package net: its
// calls may run on other threads, which are in another network after isolate.
func listen() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	file := os.NewFile(uintptr(fd), "door")
	err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	if err == nil {
		err = unix.Listen(fd, unix.SOMAXCONN)
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("listen: %w", err)
	}
	return file, nil
}
