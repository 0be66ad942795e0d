//go:build linux

package initproc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/providers/internal/initwire"
	"github.com/org/rollout-action/providers/internal/processes"
)

// Socket is the file descriptor of process 1's connection.
const Socket = 3

// serveAndExit serves a sandbox until the connection ends, and exits. All processes of the sandbox
// end with it.
func serveAndExit() {
	// End with the thread that started this process. The kernel resets this when execve brings
	// rights (modes with ids).
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
	err := unblockSignals(Role)
	var conn *initwire.Conn
	if err == nil {
		conn, err = initwire.FromFD(Socket)
	}
	if err == nil {
		err = closeOnExec()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	s := &server{conn: conn}
	if err := s.serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Serve serves requests that come from this same process, which is process 1 of a container that
// something else has made: the first message is a initwire.Setup with Made. No other part of this
// process may start processes or wait for them. It returns when the connection ends. If an answer
// cannot be sent, this process exits.
func Serve(conn *initwire.Conn) error { return (&server{conn: conn}).serve() }

// closeOnExec keeps commands from inheriting files that this process inherited besides its socket.
// The provider's process may have been started with them, and does not know them.
func closeOnExec() error {
	err := unix.CloseRange(Socket+1, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	open, err := os.ReadDir("/proc/self/fd") // before Linux 5.11
	for _, entry := range open {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > Socket {
			unix.CloseOnExec(fd)
		}
	}
	return err
}

// server serves the requests of one sandbox.
type server struct {
	conn     *initwire.Conn
	children *children
	paused   *processes.Paused // nil: nothing is
	tun      int               // tunDevice, to be opened again; -1 without one
}

func (s *server) serve() error {
	var setup initwire.Setup
	cgroupTasks, err := s.conn.Receive(&setup)
	if err != nil {
		return fmt.Errorf("receive the setup: %w", err)
	}
	ready, err := s.begin(setup, cgroupTasks)
	if err != nil {
		kind := initwire.Failed
		switch refused := new(refusal); {
		case errors.As(err, &refused):
			kind = initwire.Refused
		case errors.Is(err, errNoProgram):
			kind = initwire.NotStarted
		case errors.Is(err, errWorkDir):
			kind = initwire.NoWorkDir
		case errors.Is(err, errAccount):
			kind = initwire.NoAccount
		}
		return s.conn.Send(initwire.Answer{Kind: kind, Problem: err.Error()})
	}
	if err := s.conn.Send(ready); err != nil {
		return err
	}
	for {
		var request initwire.Request
		files, err := s.conn.Receive(&request)
		if err != nil {
			return nil //nolint:nilerr // the provider has ended or closed the connection
		}
		switch request.Op {
		case initwire.Exec:
			s.exec(request, files) // not concurrently: a Kill that comes next must find it
		case initwire.Attach, initwire.Detach, initwire.Listen:
			s.network(request)
		case initwire.Terminal:
			s.terminal(request)
		case initwire.Pause, initwire.Resume:
			s.pause(request) // not concurrently: each needs what the other has done
		default:
			go s.handle(request, files)
		}
	}
}

// begin creates the sandbox.
func (s *server) begin(setup initwire.Setup, cgroupTasks []*os.File) (initwire.Answer, error) {
	unix.Umask(0)
	if !setup.Made {
		s.findTUN()
		if err := makeRoot(setup); err != nil {
			return initwire.Answer{}, err
		}
		if err := unix.Sethostname([]byte(setup.Hostname)); err != nil {
			return initwire.Answer{}, fmt.Errorf("set the host name: %w", err)
		}
	}
	if setup.Loopback {
		if err := loopbackUp(); err != nil {
			return initwire.Answer{}, err
		}
	}
	if !setup.OneID {
		if err := unix.Setgroups(nil); err != nil {
			return initwire.Answer{}, fmt.Errorf("drop supplementary groups: %w", err)
		}
	}
	if setup.WorkDir != "" {
		if err := makeWorkDir(setup.WorkDir); err != nil {
			return initwire.Answer{}, fmt.Errorf("%w %s: %w", errWorkDir, setup.WorkDir, err)
		}
	}
	for _, dir := range setup.Dirs {
		if err := makeWorkDir(dir); err != nil {
			return initwire.Answer{}, fmt.Errorf("make the directory of the image's VOLUME %s: %w", dir, err)
		}
	}
	if setup.Account != "" {
		if _, err := identify(setup.Account); err != nil {
			return initwire.Answer{}, fmt.Errorf("%w %s: %w", errAccount, setup.Account, err)
		}
	}
	if setup.Needs != "" {
		if _, err := lookPath(setup.Needs, setup.Env, "/"); err != nil {
			return initwire.Answer{}, err
		}
	}
	unix.Umask(0o022)
	holdScore()
	started, err := newChildren(setup, cgroupTasks)
	if err != nil {
		return initwire.Answer{}, err
	}
	s.children = started
	return initwire.Answer{Notes: started.notes}, nil
}

// handle serves one request other than Exec. The function that uses the files closes them.
func (s *server) handle(request initwire.Request, files []*os.File) {
	answer := initwire.Answer{ID: request.ID}
	var err error
	switch request.Op {
	case initwire.Kill:
		err = s.children.kill(request.Target)
	case initwire.WaitFor:
		answer.Begun, answer.Running = s.children.await(request)
	case initwire.Unpack:
		err = s.unpack(files, request.Replace)
	case initwire.Pack:
		err = packTo(files, request)
	case initwire.Stat:
		answer.Info, err = stat(request.Path)
	case initwire.Remove:
		err = remove(request.Path)
	case initwire.Identify:
		answer.UID, answer.GID, err = lookupOwner(request.User, request.Group)
	default:
		err = fmt.Errorf("unknown request %q", request.Op)
	}
	if err != nil {
		answer.Kind, answer.Problem = kindOf(err), err.Error()
	}
	s.answer(answer)
}

// exec starts a command. It answers the request when the command has ended.
func (s *server) exec(request initwire.Request, files []*os.File) {
	ended, err := s.children.start(request.ID, request.Command, files)
	closeFiles(files)
	if err != nil {
		s.answer(initwire.Answer{ID: request.ID, Kind: initwire.NotStarted, Problem: err.Error(), Code: shellCode(err)})
		return
	}
	go func() {
		status := <-ended
		answer := initwire.Answer{ID: request.ID, Code: exitCode(status), Killed: status.Signaled()}
		if request.Command.Alone {
			if err := s.children.kill(request.ID); err != nil {
				answer.Kind, answer.Problem = initwire.NotEnded, err.Error()
			}
		}
		s.answer(answer)
	}()
}

// pause stops all other processes, or lets them go on.
func (s *server) pause(request initwire.Request) {
	var err error
	switch {
	case request.Op == initwire.Pause && s.paused == nil:
		ctx, cancel := context.WithTimeout(context.Background(), request.Within)
		s.paused, err = processes.Pause(ctx)
		cancel()
	case request.Op == initwire.Resume && s.paused != nil:
		err = s.paused.Resume()
		s.paused = nil
	}
	answer := initwire.Answer{ID: request.ID}
	if err != nil {
		answer.Kind, answer.Problem = initwire.Failed, err.Error()
	}
	s.answer(answer)
}

// shellCode returns the exit code with which a shell reports a program that does not exist or
// cannot be run. It returns 0 for other errors.
func shellCode(err error) int {
	switch {
	case errors.Is(err, errNoProgram):
		return 127
	case errors.Is(err, errStart):
		return 126
	}
	return 0
}

// answer sends an answer. It ends the sandbox if the client is gone.
func (s *server) answer(a initwire.Answer) {
	if s.conn.Send(a) != nil {
		os.Exit(1)
	}
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// kindOf returns an error's kind for the provider.
func kindOf(err error) initwire.Problem {
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return initwire.NotFound
	case errors.Is(err, errNotEnded):
		return initwire.NotEnded
	}
	return initwire.Failed
}
