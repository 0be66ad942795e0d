package podinit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/yamux"
	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/initclient"
	"github.com/org/rollout-action/providers/internal/initproc"
	"github.com/org/rollout-action/providers/internal/initwire"
	"github.com/org/rollout-action/providers/internal/mailbox"
	"github.com/org/rollout-action/providers/internal/processes"
)

// outputStall is how long the client may take none of the output after the exit of its command:
// while a connection is being resumed, nothing may be lost.
const outputStall = resumeTime + time.Minute

// aloneTime is how long a guest waits for its client, which is taken for dead then: the container
// would hold its resources for nothing.
var aloneTime = 15 * time.Minute // tests have another one

// server is the guest: process 1 of a container, or see Below.
type server struct {
	admission
	below   bool
	client  *initclient.Client
	letters *mailbox.Mailboxes
	began   initproc.Start

	// The lock is that of admission.
	commands  map[int64]*command
	listeners map[int64]net.Listener
	exchanges map[*exchange]bool // connections that are carried to the client
	ran       bool               // a command has begun
	ended     *ending
	output    initclient.Tail // the end of what the ENTRYPOINT printed
	stays     atomic.Bool
}

// serve is the main function of a guest. It returns only an error that keeps it from working.
func serve(socket string, below bool) error {
	switch {
	case below:
		if err := processes.Adopt(); err != nil {
			return err
		}
	case os.Getpid() != 1:
		return errors.New("the guest must be process 1 of a container: " + Program + " is to be the container's command, in its own pid namespace")
	}
	// No process of the container may look into this one, nor control it, even those that are root.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("protect the guest: %w", err)
	}
	// Nor set its limits, for which the kernel asks for the same groups: no process can have both
	// of these as all its groups. Commands do not inherit the saved one. A container in which the
	// guest may not do it works all the same.
	_ = syscall.Setresgid(os.Getgid(), os.Getgid(), os.Getgid()+1)
	// It counts against the container's limits.
	runtime.GOMAXPROCS(2)
	debug.SetGCPercent(50)
	spareThreadsNow()
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", socket)
	if err != nil {
		return err
	}
	s := &server{below: below, client: initclient.New(), began: initproc.Now(), commands: map[int64]*command{}, listeners: map[int64]net.Listener{}, exchanges: map[*exchange]bool{}}
	s.admission = admission{link: newLink(), serve: s.handle}
	s.letters = mailbox.New(func(conn net.Conn) { s.admit(conn, func() {}) })
	s.client.Stall = outputStall
	if err := s.serveInside(); err != nil {
		return err
	}
	go s.endAlone()
	var unknown strangers
	for {
		conn, err := accept(listener)
		if err != nil {
			return fmt.Errorf("accept connections: %w", err)
		}
		if s.fromInside(conn) {
			conn.Close()
			continue
		}
		unknown.add(conn)
		go s.receive(conn, func() { unknown.remove(conn) })
	}
}

// receive serves a connection from outside: the first bytes of a client, or a letter.
func (s *server) receive(conn net.Conn, said func()) {
	_ = conn.SetDeadline(time.Now().Add(helloTime))
	var first [len(mailbox.Magic)]byte
	if _, err := io.ReadFull(conn, first[:]); err != nil {
		said()
		conn.Close()
		return
	}
	whole := &begunConn{conn, io.MultiReader(bytes.NewReader(first[:]), conn)}
	if first != mailbox.Magic {
		s.admit(whole, said)
		return
	}
	said()
	_ = conn.SetDeadline(time.Now().Add(letterTime))
	s.letters.Serve(whole)
}

// letterTime bounds the time of a letter with its answer.
const letterTime = time.Minute

// begunConn is a connection of which something was read.
type begunConn struct {
	net.Conn
	rest io.Reader
}

// Read implements io.Reader.
func (c *begunConn) Read(p []byte) (int, error) { return c.rest.Read(p) }

// endAlone ends the container when no client has come for aloneTime.
func (s *server) endAlone() {
	const looks = 60
	ticks := time.NewTicker(aloneTime / looks)
	awaitAlone(ticks.C, looks, func() time.Time { _, heard := s.link.state(); return heard }, s.stays.Load)
	message := fmt.Sprintf("no client has come for %s", aloneTime)
	fmt.Fprintln(os.Stderr, message)
	_ = os.WriteFile(messages, []byte(message), 0o644) // #nosec G306 -- it is there to be read
	os.Exit(1)
}

// messages is where Kubernetes reads why a container ended. Source: terminationMessagePath.
const messages = "/dev/termination-log"

// serveInside starts the part that starts commands and reaps processes. It is in this process, and
// asked in the same way as that of a sandbox.
func (s *server) serveInside() error {
	conn, theirs, err := initwire.Pair()
	if err != nil {
		return err
	}
	fd, err := unix.Dup(int(theirs.Fd()))
	if err != nil {
		return err
	}
	theirs.Close()
	served, err := initwire.FromFD(fd)
	if err != nil {
		return err
	}
	go func() {
		if err := initproc.Serve(served); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		exit()
	}()
	s.client.Connect(conn, func() { go exit() }, func() { select {} }) // it ends with this process
	return nil
}

// farewell is how long the container stays when nothing can run in it any more, so that the client
// can read why. The client ends the container as soon as it has.
const farewell = 10 * time.Second

// exit ends the container after farewell.
func exit() {
	time.Sleep(farewell)
	os.Exit(1)
}

// handle serves one stream of the client.
func (s *server) handle(stream *yamux.Stream) {
	defer stream.Close()
	var r request
	if err := readMessage(stream, &r); err != nil {
		return
	}
	if ended := s.ending(); ended != nil {
		s.refuse(stream, r, ended)
		return
	}
	switch r.Op {
	case opExec:
		s.exec(stream, r)
		return
	case opStdin:
		s.stdin(stream, r)
		return
	case opPack:
		s.pack(stream, r)
		return
	case opList:
		s.list(stream)
		return
	case opPackFiles:
		s.packFiles(stream)
		return
	}
	answer, err := s.answer(stream, r)
	if err != nil {
		answer.Problem, answer.Kind = err.Error(), kindOf(err)
	}
	answer.Ended = s.ending()
	_ = writeMessage(stream, answer) // if it fails, the client is gone
}

// refuse answers a request to an environment that has ended.
func (s *server) refuse(stream *yamux.Stream, r request, ended *ending) {
	answer := reply{Kind: initwire.Failed, Problem: "the environment has ended", Ended: ended}
	switch r.Op {
	case opExec, opPack, opList, opPackFiles:
		_ = writeReply(stream, answer)
	default:
		_ = writeMessage(stream, answer)
	}
}

func (s *server) answer(stream *yamux.Stream, r request) (reply, error) {
	ctx := context.Background()
	switch r.Op {
	case opSetUp:
		return s.setUp(ctx, r)
	case opEntrypoint:
		return s.runEntrypoint(ctx, r)
	case opUnpack:
		return reply{}, s.unpack(ctx, stream, r)
	case opResize:
		return reply{}, s.resize(r)
	case opKill:
		return reply{}, s.kill(r)
	case opListen:
		return s.listen(ctx)
	case opClose:
		return reply{}, s.closeListener(r.ID)
	case opReach:
		return s.reach(ctx, r)
	case opConnections:
		return connections()
	case opKillAll:
		return reply{}, s.killAll(ctx)
	case opStay:
		s.stays.Store(true)
		return reply{}, nil
	case opMemory:
		return reply{Count: oomKills()}, nil
	case opProcesses:
		n, limit := countProcesses()
		return reply{Count: n, Limit: limit}, nil
	}
	return reply{}, fmt.Errorf("unknown request %q", r.Op)
}

func (s *server) setUp(ctx context.Context, r request) (reply, error) {
	needs := "bash"
	if r.Bare {
		needs = ""
	}
	_, err := s.client.SetUp(ctx, initwire.Setup{Made: true, WorkDir: r.WorkDir, Account: r.User, Needs: needs, Env: r.Env})
	refused := new(initclient.SetupError)
	if errors.As(err, &refused) {
		return reply{BadWorkDir: refused.WorkDir, NoUser: refused.Account, Lacking: refused.Lacking}, err
	}
	name, _ := os.Hostname() // which only a variable needs
	return reply{Hostname: name}, err
}

// ending returns how the environment has ended, or nil.
func (s *server) ending() *ending {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

func kindOf(err error) initwire.Problem {
	refused := new(initclient.RequestError)
	if errors.As(err, &refused) {
		return refused.Kind
	}
	return initwire.Failed
}

// runEntrypoint starts the image's ENTRYPOINT and waits until it runs its arguments.
func (s *server) runEntrypoint(ctx context.Context, r request) (reply, error) {
	process, err := s.client.Start(*r.Command, nil, &s.output, &s.output)
	if err != nil {
		return reply{}, err
	}
	gone := make(chan struct{})
	created := make(chan struct{})
	go s.watch(ctx, process, created, gone)
	answer, err := s.client.Call(ctx, initwire.Request{
		Op: initwire.WaitFor, Target: process.ID, Command: &initwire.Command{Args: environment.Idle()}, Within: r.Within,
	})
	if err == nil && (answer.Begun || answer.Running) {
		close(created)
		return reply{Busy: !answer.Begun && r.Within > 0}, nil
	}
	close(created)
	<-gone
	return reply{}, err
}

// watch ends the environment when the ENTRYPOINT exits.
func (s *server) watch(ctx context.Context, process *initclient.Started, created <-chan struct{}, gone chan<- struct{}) {
	defer close(gone)
	answer, err := process.Wait(ctx)
	select {
	case <-created:
		if err == nil && answer.Killed {
			return // as process 1 of a container it would not have been killed
		}
	default:
	}
	end := &ending{Code: answer.Code, Output: s.output.String(), OutOfMemory: oomKills() > 0}
	if err != nil {
		end.Problem = err.Error()
	}
	s.mu.Lock()
	end.Ran = s.ran
	s.ended = end
	s.mu.Unlock()
	_ = s.killAll(ctx) // the rest ends with the container
}
