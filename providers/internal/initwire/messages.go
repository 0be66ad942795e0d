package initwire

import (
	"net/netip"
	"os"
	"time"
)

// Setup is the first message to a sandbox's process 1. It describes the root file system. The files
// that come with it are "tasks" files of control groups: the thread that starts commands writes "0"
// to each, and so enters the groups.
type Setup struct {
	// Store is the directory that relative paths in Mounts begin at; short paths, for the kernel
	// takes one page of options for a mount.
	Store string `json:"store"`
	// Root is an empty directory of the machine to mount on, in the sandbox's own mount namespace.
	Root   string  `json:"root"`
	Mounts []Mount `json:"mounts"` // parents first; the first one is at "/"
	// Memory, if set, keeps what the sandbox writes in memory instead of in the mounts' Upper,
	// within so many bytes (0: half the machine's). Scratch is then an empty directory of the
	// machine to mount on.
	Memory   *int64 `json:"memory,omitempty"`
	Scratch  string `json:"scratch,omitempty"`
	Hostname string `json:"hostname"`
	// Needs, if set, is a program that must be there; Env has the PATH to look in.
	Needs string   `json:"needs,omitempty"`
	Env   []string `json:"env,omitempty"`
	// WorkDir, if set, is a directory that process 1 creates, with its parents, if it does not
	// exist.
	WorkDir string `json:"work_dir,omitempty"`
	// Dirs are further ones, those of the image's VOLUMEs.
	Dirs []string `json:"dirs,omitempty"`
	// Account, if set, is a user[:group] that must be there.
	Account string `json:"account,omitempty"`
	// User: in a user namespace. OneID: only user and group 0 exist in it.
	User  bool `json:"user,omitempty"`
	OneID bool `json:"one_id,omitempty"`
	// Loopback: the network is the sandbox's own, with nothing but a loopback device.
	Loopback bool `json:"loopback,omitempty"`
	// Made: something else, such as a container runtime, has made the root file system and the
	// network, and has restricted process 1. Nothing is mounted, and commands have the rights that
	// process 1 has.
	Made bool `json:"made,omitempty"`
}

// Mount is one overlay.
type Mount struct {
	At    string   `json:"at"`    // absolute path in the sandbox
	Lower []string `json:"lower"` // top first
	Upper string   `json:"upper"`
	Work  string   `json:"work"`
}

// Op names the operation of a request.
type Op string

// The requests. Each is answered once, with its ID; Exec when the command has ended.
const (
	Exec Op = "exec" // Command; files: stdin, if there is one, stdout, stderr
	Kill Op = "kill" // Target is the ID of an Exec: end all that it started
	// Await waits until some process runs Command's Args, for at most Within and while the Exec
	// with the ID Target runs.
	WaitFor Op = "await"
	Unpack  Op = "unpack" // files: a tar stream, to be unpacked at "/"
	Pack    Op = "pack"   // Path; files: where the tar stream goes
	Stat    Op = "look"   // Path
	Remove  Op = "remove" // Path
	// Identify turns User and Group into numbers.
	Identify Op = "identify"
	// Terminal makes a terminal that belongs to User. The answer has its two ends as its files: the
	// program's side that shows it, and the command's, which the three files of an Exec can be.
	Terminal Op = "terminal"
	// Pause stops all processes but process 1, until Resume. One that takes longer than Within is
	// an error, after which none is stopped.
	Pause Op = "pause"
	// Resume lets the processes go on that Pause has stopped.
	Resume Op = "resume"
	// Attach makes the network device of Device, and routes everything through it. The answer has
	// its other end as its file, and Frames.
	Attach Op = "attach"
	// Detach removes the device with the name of Device.
	Detach Op = "detach"
	// Listen opens a socket on the loopback device. The socket is the answer's file.
	Listen Op = "listen"
)

// Request is a message to a sandbox's init.
type Request struct {
	ID      int64    `json:"id"`
	Op      Op       `json:"op"`
	Target  int64    `json:"target,omitempty"`
	Command *Command `json:"command,omitempty"`
	// Within (WaitFor, Pause)
	Within time.Duration `json:"within,omitempty"`
	Path   string        `json:"path,omitempty"` // absolute
	// Replace (Unpack): files and directories may take each other's place.
	Replace bool `json:"replace,omitempty"`
	// Prefix (Pack) is the name of Path in the stream; empty is ".".
	Prefix string `json:"prefix,omitempty"`
	// Plain (Pack): every name of a file has its content, and nothing has extended attributes.
	Plain bool `json:"plain,omitempty"`
	// Itself (Pack): a link at Path is packed, not its target.
	Itself bool    `json:"itself,omitempty"`
	User   string  `json:"user,omitempty"`
	Group  string  `json:"group,omitempty"`
	Device *Device `json:"device,omitempty"`
}

// Device is a network device of a sandbox.
type Device struct {
	Name   string    `json:"name"`
	MTU    int       `json:"mtu,omitempty"` // up to MaxMTU
	Addrs  []Address `json:"addrs,omitempty"`
	Frames Frames    `json:"frames,omitempty"` // if set, which it has to be
}

// Address is one that the sandbox has, and where the default route of its kind leads.
type Address struct {
	Own     netip.Addr `json:"own"`
	Gateway netip.Addr `json:"gateway"`
}

// MaxMTU is the largest MTU of a device.
const MaxMTU = 65535

// Frames is the format of data read from and written to the other end of a device, one frame at a
// time, each behind a struct virtio_net_hdr of ten bytes.
type Frames string

// The frames.
const (
	Packets  Frames = "packets"  // of IP
	Ethernet Frames = "ethernet" // those that are written are for Hardware
)

// Hardware is the hardware address of devices of Ethernet.
var Hardware = [6]byte{0x02, 0, 0, 0, 0, 0x02}

// Command is a process to start.
type Command struct {
	Args []string `json:"args,omitempty"` // the first is looked up in PATH of Env
	Env  []string `json:"env,omitempty"`  // KEY=value
	Dir  string   `json:"dir,omitempty"`
	User string   `json:"user,omitempty"` // name or id[:group or id]; empty is 0
	// Terminal: the first file is a terminal, which becomes the command's controlling terminal.
	Terminal bool `json:"terminal,omitempty"`
	// Alone: what the command leaves running is ended with it.
	Alone bool `json:"alone,omitempty"`
	// MaxProcesses, if not 0, limits processes and threads of the command's user in this sandbox.
	MaxProcesses int64 `json:"max_processes,omitempty"`
}

// Answer is a message from a sandbox's init. The first one, with ID 0, says that it is ready.
type Answer struct {
	ID int64 `json:"id"`
	// Killed: a signal ended the Exec.
	Killed bool `json:"killed,omitempty"`
	// Begun: some process runs what a WaitFor waited for. Running: the time was over, and the Exec
	// is still running.
	Begun   bool `json:"begun,omitempty"`
	Running bool `json:"running,omitempty"`
	// Code is the exit code of an Exec; 128+n if signal n ended it; 127 or 126 if it was not
	// started and a shell would report that.
	Code int `json:"code,omitempty"`
	// Problem says why the request failed; Kind is which of the Problem kinds it is.
	Problem string   `json:"problem,omitempty"`
	Kind    Problem  `json:"kind,omitempty"`
	Notes   []string `json:"notes,omitempty"` // of the first answer: protections that this kernel lacks
	UID     int      `json:"uid,omitempty"`
	GID     int      `json:"gid,omitempty"`
	Info    *Info    `json:"info,omitempty"`
	Frames  Frames   `json:"frames,omitempty"` // of an Attach
	// Files come with the answer; who waits for it closes them.
	Files []*os.File `json:"-"`
}

// Info is the answer to Stat.
type Info struct {
	Path   string   `json:"path"` // with links resolved, as far as it exists
	Exists bool     `json:"exists,omitempty"`
	Dir    bool     `json:"dir,omitempty"`
	Names  []string `json:"names,omitempty"` // of the entries of a directory, sorted
}

// File describes one file of a root file system.
type File struct {
	Path     []byte `json:"p"` // from the root, without a slash at its beginning; it need not be UTF-8
	Mode     uint32 `json:"m"` // st_mode
	UID      uint32 `json:"u,omitempty"`
	GID      uint32 `json:"g,omitempty"`
	Size     int64  `json:"s,omitempty"` // of a directory it means nothing
	Modified int64  `json:"t,omitempty"` // in nanoseconds since 1970
	Device   uint64 `json:"d,omitempty"` // st_rdev
	// Recent: it was made, or changed in any way, since process 1 began.
	Recent bool `json:"r,omitempty"`
}

// Problem is the kind of a failure.
type Problem string

// The problems.
const (
	Failed     Problem = "failed"
	NotFound   Problem = "not_found"   // a path that does not exist
	NotStarted Problem = "not_started" // a command that could not begin
	NoWorkDir  Problem = "no_work_dir" // Setup.WorkDir cannot be created
	NoAccount  Problem = "no_account"  // Setup.Account is not there
	NotEnded   Problem = "alive"       // processes that could not be ended
	Refused    Problem = "refused"     // the kernel refuses what the sandbox is made of
)
