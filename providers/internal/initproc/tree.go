//go:build linux

package initproc

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/providers/internal/initwire"
)

// Start is the moment since which files count as changed.
type Start struct {
	changed int64 // in the file system's time
	offset  int64 // of the clock of the day, from the time since the machine's start
}

// Now returns the present moment.
func Now() Start {
	return Start{changed: changeTime(), offset: clockOffset()}
}

// changeTime returns the time that the root file system now records for a change: that of a file
// without a name or, where there are none, of the kernel's clock for that.
func changeTime() int64 {
	var stat unix.Stat_t
	if fd, err := unix.Open("/", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600); err == nil {
		defer unix.Close(fd)
		if unix.Fstat(fd, &stat) == nil {
			return stat.Ctim.Nano()
		}
	}
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now) // exists in every kernel
	return now.Nano()
}

func clockOffset() int64 {
	var day, boot unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_REALTIME, &day)
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot)
	return day.Nano() - boot.Nano()
}

// clockJitter is how far two readings of the clocks may be apart.
const clockJitter = 50_000_000

// ListFiles calls each for the files of the root file system, but not for its root: a directory
// comes before its entries, which are in the order of their names. Mounts are left out, and files
// that vanish meanwhile.
//
// A file is Recent by its time of change (ctime), which is the kernel's: programs cannot set it,
// and every change of a file sets it. So nothing has to be read before the environment begins,
// which would cost each one a walk through its image. What the times do not say are names that are
// gone, and directories that were renamed with all that is in them: finding them takes a comparison
// with a list of the image. A clock that was set back since would hide changes, and is an error.
func ListFiles(since Start, each func(initwire.File) error) error {
	if back := since.offset - clockOffset(); back > clockJitter {
		return errors.New("the machine's clock was set back since the environment began, so that changed files cannot be told from others")
	}
	mounted, err := mountPoints()
	if err != nil {
		return err
	}
	root, err := os.Open("/")
	if err != nil {
		return err
	}
	defer root.Close()
	var stat unix.Stat_t
	if err := unix.Fstat(int(root.Fd()), &stat); err != nil {
		return err
	}
	l := lister{device: stat.Dev, since: since.changed, mounted: mounted, each: each}
	return l.list(root, "")
}

type lister struct {
	device  uint64
	since   int64
	mounted map[string]bool
	each    func(initwire.File) error
	held    heldNames
}

// maxPath is the longest path that is listed: a little more than a layer or a tar stream can have.
const maxPath = 4095

// list lists the entries of a directory, whose path ends in a slash or is empty. Links are never
// followed.
func (l *lister) list(dir *os.File, prefix string) error {
	names, more, err := l.held.read(dir)
	if err != nil {
		return fmt.Errorf("list /%s: %w", prefix, err)
	}
	defer l.held.drop(names)
	if more {
		return fmt.Errorf("/%s, with the directories above it, has more files than can be listed in order", prefix)
	}
	for _, name := range names {
		path := prefix + name
		if l.mounted["/"+path] {
			continue
		}
		if len(path) > maxPath {
			return fmt.Errorf("the path that begins with /%.60s is longer than %d bytes", path, maxPath)
		}
		var stat unix.Stat_t
		err := unix.Fstatat(int(dir.Fd()), name, &stat, unix.AT_SYMLINK_NOFOLLOW)
		if vanished(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("look at /%s: %w", path, err)
		}
		isDir := stat.Mode&unix.S_IFMT == unix.S_IFDIR
		if isDir && stat.Dev != l.device {
			continue
		}
		err = l.each(initwire.File{
			Path: []byte(path), Mode: stat.Mode, UID: stat.Uid, GID: stat.Gid, Size: stat.Size, Modified: stat.Mtim.Nano(), Device: stat.Rdev,
			Recent: stat.Ctim.Nano() >= l.since,
		})
		if err != nil {
			return err
		}
		if isDir {
			if err := l.enter(dir, name, path); err != nil {
				return err
			}
		}
	}
	return nil
}

// enter lists the entries of a directory of dir.
func (l *lister) enter(dir *os.File, name, path string) error {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if vanished(err) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list /%s: %w", path, err)
	}
	child := os.NewFile(uintptr(fd), path)
	defer child.Close()
	return l.list(child, path+"/")
}

// mountPoints returns where something is mounted. Source: proc_pid_mountinfo(5).
func mountPoints() (map[string]bool, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	points := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			points[unescape.Replace(fields[4])] = true
		}
	}
	return points, nil
}

// PackFiles writes the files of the root file system whose paths it reads, each ended by a zero
// byte, as a tar stream. Of a directory it writes only the directory; the second name of a file
// that has several is a link. Sockets are left out, and what vanishes meanwhile.
func PackFiles(paths io.Reader, w io.Writer) error {
	root, err := os.OpenRoot("/")
	if err != nil {
		return err
	}
	defer root.Close()
	p := packer{tw: tar.NewWriter(w), root: root, links: map[inode]string{}, attributes: belongsToSandbox}
	for from := bufio.NewReader(paths); ; {
		path, err := from.ReadString(0)
		if errors.Is(err, io.EOF) {
			return p.tw.Close()
		}
		if err != nil {
			return err
		}
		path = strings.TrimSuffix(path, "\x00")
		info, err := root.Lstat(path)
		if vanished(err) {
			continue
		}
		if err == nil {
			err = p.entry(path, path, info)
		}
		if err != nil {
			return fmt.Errorf("pack /%s: %w", path, err)
		}
	}
}
