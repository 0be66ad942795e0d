package appletest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/imagestest"
)

// Faults make the program fail.
type Faults struct {
	// Down: the system service was not started, or stopped.
	Down bool
	// Cut, if not 0, is after how many bytes of its output an exec ends, as if the connection to
	// the container was lost.
	Cut int
	// Lag makes lists have containers that are gone.
	Lag bool
	// Fail, if not nil, is called before each command with its name, such as "image pull". It
	// returns what the command prints as its error; "": it does not fail.
	Fail func(command string) string
}

// Service is the system service of container.
type Service struct {
	runs    environment.Provider
	images  *imagestest.Images
	program string
	dir     string
	l       net.Listener
	ctx     context.Context //nolint:containedctx // as long as the service
	stop    context.CancelFunc

	mu         sync.Mutex
	faults     Faults
	version    string
	calls      map[string]int
	moved      int64
	arguments  []string
	containers map[string]*container
	order      []string
	tags       map[string]string // images that were built, by their names
	remote     map[string]bool   // images that have to be pulled
}

// Version is what the program says of its version: as the real one's, whose options it has.
const Version = "container CLI version 1.2.2 (build: release, commit: 0190097)"

// Start starts a service that runs containers in environments of a provider.
func Start(runs environment.Provider, images *imagestest.Images) (*Service, error) {
	dir, err := os.MkdirTemp("", "rollout-appletest-")
	if err != nil {
		return nil, err
	}
	s := &Service{
		runs: runs, images: images, dir: dir, version: Version,
		calls: map[string]int{}, containers: map[string]*container{}, tags: map[string]string{}, remote: map[string]bool{},
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	socket := filepath.Join(dir, "socket")
	if s.l, err = new(net.ListenConfig).Listen(s.ctx, "unix", socket); err == nil {
		s.program, err = install(dir, socket)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	go func() {
		for {
			conn, err := s.l.Accept()
			if err != nil {
				return
			}
			go s.serve(conn)
		}
	}()
	return s, nil
}

// Program is the path of the program.
func (s *Service) Program() string { return s.program }

// Close ends all containers, and returns when they have ended.
func (s *Service) Close() {
	s.mu.Lock()
	ids := slices.Clone(s.order)
	s.mu.Unlock()
	for _, id := range ids {
		s.Vanish(id)
	}
	s.stop()
	s.l.Close()
	_ = os.RemoveAll(s.dir)
}

// SetFaults changes how the program fails.
func (s *Service) SetFaults(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

// SetVersion changes what the program says of its version.
func (s *Service) SetVersion(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = text
}

// Publish makes an image one that has to be pulled first.
func (s *Service) Publish(ref string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remote[ref] = true
}

// Calls returns how often each command was run, and how many bytes went to and from execs.
func (s *Service) Calls() (calls map[string]int, moved int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.calls), s.moved
}

// Arguments returns the arguments of all commands, one in a line.
func (s *Service) Arguments() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.arguments, "\n")
}

func (s *Service) fault() Faults {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults
}

// invocation is one run of the program.
type invocation struct {
	parsed

	dir            string
	stdin          io.Reader
	stdout, stderr io.Writer
	ctx            context.Context //nolint:containedctx // as long as the program runs
}

// serve serves one run of the program.
func (s *Service) serve(conn net.Conn) {
	defer conn.Close()
	kind, text, err := readFrame(conn)
	var r request
	if err != nil || kind != frameArgs || json.Unmarshal(text, &r) != nil {
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	in, to := io.Pipe()
	defer in.CloseWithError(errGone)
	go func() {
		defer cancel() // the program was killed
		for {
			_, data, err := readFrame(conn)
			if err != nil {
				to.Close()
				return
			}
			if len(data) == 0 {
				to.Close()
			} else if _, err := to.Write(data); err == nil {
				s.count(len(data))
			}
		}
	}()
	var mu sync.Mutex
	i := &invocation{dir: r.Dir, stdin: in, stdout: frames{&mu, conn, frameStdout}, stderr: frames{&mu, conn, frameStderr}, ctx: ctx}
	code, err := s.dispatch(i, r.Args)
	if said := new(failure); errors.As(err, &said) {
		code = said.code
		_, _ = io.WriteString(i.stderr, "Error: "+said.text+"\n")
	} else if err != nil {
		code = 1
		_, _ = io.WriteString(i.stderr, "Error: internalError: \""+err.Error()+"\"\n")
	}
	mu.Lock()
	defer mu.Unlock()
	_ = writeFrame(conn, frameExit, []byte{byte(code)}) // the program may have been killed
}

func (s *Service) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moved += int64(n)
}

// down is the error of a service that does not run.
// Source: Sources/ContainerCommands/Application.swift.
const down = "interrupted: \"internalError: \"failed to list containers\" (cause: \"interrupted: \"XPC connection error: Connection invalid\"\")\n" +
	"Ensure container system service has been started with `container system start`.\""

// dispatch runs a command, and returns its exit code.
func (s *Service) dispatch(i *invocation, args []string) (int, error) {
	if slices.Equal(args, []string{"--version"}) {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, err := io.WriteString(i.stdout, s.version+"\n")
		return 0, err
	}
	var err error
	if i.parsed, err = parse(args); err != nil {
		return 0, err
	}
	s.mu.Lock()
	s.calls[i.name]++
	s.arguments = append(s.arguments, strings.Join(args, " "))
	faults := s.faults
	s.mu.Unlock()
	if faults.Down {
		if i.name == "system status" {
			_, err := io.WriteString(i.stdout, "apiserver is not running and not registered with launchd\n")
			return 1, err
		}
		return 0, failed(down)
	}
	if faults.Fail != nil {
		if text := faults.Fail(i.name); text != "" {
			return 0, failed("%s", text)
		}
	}
	serve := map[string]func(*invocation) (int, error){
		"run": s.run, "exec": s.exec, "delete": s.delete, "stop": s.stopContainers, "list": s.list,
		"image pull": s.pull, "image inspect": s.inspect, "image save": s.save, "build": s.build,
		"system status": func(i *invocation) (int, error) {
			_, err := io.WriteString(i.stdout, "FIELD   VALUE\nstatus  running\n")
			return 0, err
		},
	}
	return serve[i.name](i)
}

// quoted returns a script that becomes a command.
func quoted(args []string) string {
	var b strings.Builder
	b.WriteString("exec")
	for _, arg := range args {
		b.WriteString(" '" + strings.ReplaceAll(arg, "'", `'\''`) + "'")
	}
	return b.String()
}
