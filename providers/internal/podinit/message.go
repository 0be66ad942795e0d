package podinit

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/org/rollout-action/internal/core/environment"
	"github.com/org/rollout-action/providers/internal/initwire"
)

// op names the operation of a request by the client, or by the guest. Each has a separate stream,
// which begins with a request.
type op string

const (
	opSetUp       op = "set up"      // once, before any other: WorkDir, Env, Bare
	opEntrypoint  op = "entrypoint"  // Command; Within
	opExec        op = "exec"        // Command, Terminal; frames of output follow, and the reply
	opStdin       op = "stdin"       // ID of an exec; frames follow, and a reply, which has a problem if the input could not be read
	opResize      op = "resize"      // ID of an exec, Terminal
	opKill        op = "kill"        // ID of an exec, which then ends and says how
	opUnpack      op = "unpack"      // Replace; frames of a tar stream follow, and a reply, which has a problem if the stream ends early
	opPack        op = "pack"        // Path, Prefix; frames of a tar stream follow, and the reply
	opList        op = "list"        // frames with files of the root file system follow, each a JSON array of wire.File, and the reply
	opPackFiles   op = "pack files"  // frames of paths follow, each path ended by a zero byte, and frames of a tar stream, and the reply, in return
	opListen      op = "listen"      // the reply has Address; the guest opens a stream for each connection
	opClose       op = "close"       // ID of a listener
	opConnection  op = "connection"  // guest to client: ID of the listener; bytes follow in both directions
	opReach       op = "reach"       // Address, Within
	opConnections op = "connections" // the reply has a list
	opKillAll     op = "kill all"
	opStay        op = "stay"      // the guest does not end without a client
	opMemory      op = "memory"    // the reply counts processes that were killed for lack of memory
	opProcesses   op = "processes" // the reply counts them, and has Limit
)

// request begins a stream.
type request struct {
	Op       op                        `json:"op"`
	ID       int64                     `json:"id,omitempty"`
	Command  *initwire.Command         `json:"command,omitempty"`
	Stdin    bool                      `json:"stdin,omitempty"`
	Merged   bool                      `json:"merged,omitempty"` // both outputs are one
	Terminal *environment.TerminalSize `json:"terminal,omitempty"`
	WorkDir  string                    `json:"work_dir,omitempty"`
	User     string                    `json:"user,omitempty"`
	Env      []string                  `json:"env,omitempty"`
	Bare     bool                      `json:"bare,omitempty"` // bash is not needed
	Replace  bool                      `json:"replace,omitempty"`
	Path     string                    `json:"path,omitempty"`
	Prefix   string                    `json:"prefix,omitempty"`
	Address  string                    `json:"address,omitempty"`
	Within   time.Duration             `json:"within,omitempty"`
	Timeout  time.Duration             `json:"timeout,omitempty"` // of an exec; 0: none
}

// reply answers a request.
type reply struct {
	Code     int              `json:"code,omitempty"`
	Problem  string           `json:"problem,omitempty"`
	Kind     initwire.Problem `json:"kind,omitempty"`
	Busy     bool             `json:"busy,omitempty"` // the ENTRYPOINT does not run its arguments yet
	Yes      bool             `json:"yes,omitempty"`
	Address  string           `json:"address,omitempty"`
	Hostname string           `json:"hostname,omitempty"`
	List     []string         `json:"list,omitempty"`
	Count    int              `json:"count,omitempty"`
	Limit    int              `json:"limit,omitempty"` // of processes; 0: it is far or not known
	Ended    *ending          `json:"ended,omitempty"` // the ENTRYPOINT has ended, and so has the environment
	// Cancelled: the command was ended as asked, with all that it started.
	Cancelled bool `json:"cancelled,omitempty"`
	// TimedOut: the command was ended at its limit, with all that it started.
	TimedOut bool `json:"timed_out,omitempty"`
	// Ran is how much of a limit the command has used.
	Ran        time.Duration `json:"ran,omitempty"`
	BadWorkDir bool          `json:"bad_work_dir,omitempty"` // the image's WORKDIR cannot be made
	NoUser     bool          `json:"no_user,omitempty"`      // the image's USER is not in it
	Lacking    bool          `json:"lacking,omitempty"`      // the image has no bash
}

// ending describes how an ENTRYPOINT ended.
type ending struct {
	Code        int    `json:"code"`
	Output      string `json:"output,omitempty"`
	Problem     string `json:"problem,omitempty"` // it could not be started
	OutOfMemory bool   `json:"out_of_memory,omitempty"`
	Ran         bool   `json:"ran,omitempty"` // a command had begun
}

// maxMessage bounds a request and a reply. Scripts have at most 1.5 MiB.
const maxMessage = 16 << 20

func writeMessage(w io.Writer, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)) // far below 4 GiB
	return err
}

func readMessage(r io.Reader, v any) error {
	size := make([]byte, 4)
	if _, err := io.ReadFull(r, size); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(size)
	if n > maxMessage {
		return fmt.Errorf("a message has %d bytes", n)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return err
	}
	return json.Unmarshal(body, v)
}

// The frames of a stream with output, input or files: a byte, four bytes of length, and so many
// bytes.
const (
	frameReply  = 0 // the last one
	frameStdout = 1 // and files
	frameStderr = 2
	frameBegun  = 3 // the command has begun
)

// maxOutput is the longest frame of output that is written.
const maxOutput = 64 << 10

func writeFrame(w io.Writer, kind byte, data []byte) error {
	frame := append(make([]byte, 0, 5+len(data)), kind)
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(data))) // at most maxMessage
	_, err := w.Write(append(frame, data...))
	return err
}

// readFrames calls take with each frame but the last, which it returns. data is valid until take
// returns.
func readFrames(r io.Reader, take func(kind byte, data []byte) error) (reply, error) {
	var last reply
	var buffer []byte
	header := make([]byte, 5)
	for {
		if _, err := io.ReadFull(r, header); err != nil {
			return last, err
		}
		n := int(binary.BigEndian.Uint32(header[1:]))
		if n > maxMessage {
			return last, fmt.Errorf("a frame has %d bytes", n)
		}
		if cap(buffer) < n {
			buffer = make([]byte, n)
		}
		if _, err := io.ReadFull(r, buffer[:n]); err != nil {
			return last, err
		}
		if header[0] == frameReply {
			err := json.Unmarshal(buffer[:n], &last)
			return last, err
		}
		if err := take(header[0], buffer[:n]); err != nil {
			return last, err
		}
	}
}

// frameWriter writes frames of one kind.
type frameWriter struct {
	to   io.Writer
	kind byte
}

func (w frameWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), maxOutput)
		if err := writeFrame(w.to, w.kind, rest[:n]); err != nil {
			return len(p) - len(rest), err
		}
		rest = rest[n:]
	}
	return len(p), nil
}

func writeReply(w io.Writer, r reply) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return writeFrame(w, frameReply, body)
}

// copyFrames writes what frames hold to w, until the last one. If that has a problem, it returns it
// as an error.
func copyFrames(w io.Writer, r io.Reader) error {
	last, err := readFrames(r, func(_ byte, data []byte) error {
		_, err := w.Write(data)
		return err
	})
	if err == nil && last.Problem != "" {
		err = errors.New(last.Problem)
	}
	return err
}
