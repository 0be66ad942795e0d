package machine

import (
	"context"
	"io"

	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
)

// Image is a root file system that steps build upon, with the settings of commands in it.
type Image struct {
	// Layers are layer ids returned by Layer (or chosen by the machine, from From), bottom first.
	Layers []string
	// Env has KEY=value, each key once. A key without "=" is ignored.
	Env []string
	// WorkDir is absolute, or empty for "/". It need not exist.
	WorkDir string
	// User is in the form of USER: name|uid[:group|gid]. Empty is root.
	User string
	// Shell runs commands in shell form, as set by the image's configuration or SHELL; empty is
	// /bin/sh -c.
	Shell []string
	// Entrypoint and Healthcheck are set by ENTRYPOINT and HEALTHCHECK. They change no layer.
	Entrypoint  []string
	Healthcheck *dockerspec.HealthcheckConfig
	// Volumes are the paths of VOLUME, sorted. They change no layer.
	Volumes []string
	// ID identifies the content below, for the keys of images built on it. Images with the same ID
	// are assumed equal, so an ID of From must change when the image (or its substitute) changes.
	ID string
	// Base is the part below the layers. Only the machine uses it. Every image built on an image
	// has its Base. It must be safe to copy.
	Base any
}

// Machine makes and stores root file systems. A build calls its methods one at a time, except where
// stated. Errors are returned wrapped; those of an ended context must have its error in their
// chain.
type Machine interface {
	// From returns the image that FROM (or COPY --from, or a bind mount) names: "debian:12",
	// "scratch" for an empty one. It is called once for each reference and build, and only for
	// images that the target needs.
	From(ctx context.Context, ref string) (Image, error)

	// Layer returns the layer with a key: from the store, or made by do in a root file system on
	// under, whose changes become the layer. The key is 64 hexadecimal digits and covers under as
	// well. If many processes ask for one key, one makes the layer and the others wait. fresh makes
	// it even if it is stored; the new layer replaces the old one without disturbing its users.
	// made reports whether do ran in this call. If do fails, nothing is stored and err has do's
	// error in its chain. id goes into Layers of the next step's image. do may call Visit.
	Layer(ctx context.Context, key string, under Image, fresh bool, do func(context.Context, Root) error) (id string, made bool, err error)

	// Visit calls do with a root file system on an image, and discards it with its changes. It is
	// called while a layer is made: both root file systems are then used concurrently.
	Visit(ctx context.Context, image Image, do func(context.Context, Root) error) error
}

// Root is a root file system in use. Its methods are called one at a time. Paths are absolute and
// clean ("/a/b", no "..", no trailing slash except for "/" itself). Links are followed inside of
// it only: an absolute link begins at its top, and ".." stops there. It has methods
// for files because not every image has programs for them.
type Root interface {
	// Run runs a command and returns its exit code: 128+n if signal n ended it, 127 if the program
	// does not exist, 126 if it cannot be started, both with the reason written to Stderr. err is
	// for failures outside of the command, such as a missing user. Before Run returns, it ends all
	// processes that the command left running; if ctx ends, it ends the command itself and err is
	// ctx's. It returns when both writers have received all output.
	Run(ctx context.Context, c Command) (exit int, err error)

	// Put unpacks a tar stream, without compression, at the root. Names are relative and clean
	// ("a/b", or "." for the root). Entries are files, directories, symbolic links, hard links (to
	// names in the form of the stream, also to files that existed before), and devices and pipes if
	// the machine may make them. They carry numeric uid and gid (which must not be looked up by
	// name), permissions with setuid, setgid and sticky, times, and extended attributes as PAX
	// records SCHILY.xattr.*. If the machine cannot set an owner, it leaves its own. Links in
	// parents are followed, the last element is not; missing parents are created with mode 0755,
	// owned by root. A file or link replaces a file or link (never written through). A directory
	// merges into a directory, which gets the entry's mode, owner and times. Other collisions (a
	// directory over a file, a file over a directory) are errors that name the path. Directories
	// get their times last.
	Put(ctx context.Context, tar io.Reader) error

	// Get writes the file or directory at path, with its content, as a tar stream without
	// compression. Names are relative to path. path itself is "." and comes first, with its true
	// type; directories come before their content, each in the order of names. Links are followed
	// in path, including its last element, but never beneath it. Owners are numeric and as seen
	// inside; permissions include setuid, setgid and sticky; times and extended attributes are as
	// for Put. The second name of a file is a hard link to the first, if both are beneath path.
	// Sockets are left out. If path does not exist, fs.ErrNotExist is in the chain.
	Get(ctx context.Context, path string, w io.Writer) error

	// Stat describes the file at path. It follows links in the whole path. A missing file or a
	// dangling link is not an error.
	Stat(ctx context.Context, path string) (Info, error)

	// Remove removes the file or directory at path, if it exists. Links in parents are followed,
	// the last element is not.
	Remove(ctx context.Context, path string) error

	// Lookup returns the ids of a user and a group. Names are looked up in its /etc/passwd
	// and /etc/group; numbers are returned unchanged, known or not. An empty group is the named
	// user's own group or, for a number, the same number. The error for an unknown name contains
	// it.
	Lookup(ctx context.Context, user, group string) (uid, gid int, err error)
}

// Info is the result of Stat.
type Info struct {
	// Path is the path with links resolved, as far as it exists: "/bin/sh" is "/usr/bin/dash".
	// Missing elements are unchanged.
	Path string
	// Exists reports whether the file exists, Dir whether it is a directory.
	Exists, Dir bool
	// Names are the entries of a directory, sorted, without "." and "..".
	Names []string
}

// Command is a command of RUN.
type Command struct {
	// Args is the program, looked for in Env's PATH unless it has a slash, and its arguments. At
	// least one.
	Args []string
	// Env is the complete environment except HOME, which Run sets from the user's passwd entry
	// if it is missing. Sorted by key, each key once.
	Env []string
	// Dir is absolute; if it is missing, it is created with mode 0755, owned by root.
	Dir string
	// User is in the form of USER; empty is root.
	User string
	// Offline is RUN --network=none: the command must have no network but its own loopback. A
	// machine that cannot do that must return an error that says so.
	Offline bool
	// Stdout and Stderr may be the same writer, which is then not written to concurrently. The
	// command's standard input is empty.
	Stdout, Stderr io.Writer
}
