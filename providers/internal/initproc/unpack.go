//go:build linux

package initproc

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func (s *server) unpack(files []*os.File, replace bool) error {
	defer closeFiles(files)
	if len(files) != 1 {
		return errors.New("unpacking needs one file")
	}
	u := unpacker{replace: replace, oneID: s.children.oneID}
	defer u.closeParent()
	return u.unpack(tar.NewReader(files[0]))
}

// unpacker unpacks one tar stream at "/". The agent may have changed the file system, so links may
// lead files elsewhere, but only within the sandbox: links in a path's parents are followed, links
// in its last element are not.
type unpacker struct {
	replace bool
	oneID   bool

	dir    string // the directory that parent is
	parent *os.Root
	times  []dirTime
}

// dirTime is a directory's time. It is set at the end, because each new file in a directory changes
// it.
type dirTime struct {
	path string
	time time.Time
}

func (u *unpacker) unpack(archive *tar.Reader) error {
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read the archive: %w", err)
		}
		if err := u.unpackEntry(header, archive); err != nil {
			return fmt.Errorf("/%s: %w", header.Name, err)
		}
	}
	for _, dir := range u.times {
		if err := os.Chtimes(dir.path, time.Time{}, dir.time); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacker) unpackEntry(header *tar.Header, content io.Reader) error {
	full := path.Clean("/" + header.Name)
	if full == "/" {
		return nil
	}
	dir, name := path.Split(full)
	if err := u.setParent(path.Clean(dir)); err != nil {
		return err
	}
	merged, err := u.clearPath(name, header.Typeflag == tar.TypeDir)
	if err != nil || merged && header.Typeflag != tar.TypeDir {
		return err
	}
	switch header.Typeflag {
	case tar.TypeDir:
		return u.makeDir(full, name, header, merged)
	case tar.TypeReg, tar.TypeGNUSparse:
		return u.writeFile(name, header, content)
	case tar.TypeSymlink:
		if err := u.parent.Symlink(header.Linkname, name); err != nil {
			return err
		}
		return u.setOwner(name, header)
	case tar.TypeLink:
		return u.link(full, header.Linkname)
	case tar.TypeFifo, tar.TypeChar, tar.TypeBlock:
		return u.makeNode(name, header)
	}
	return fmt.Errorf("an entry of type %q cannot be unpacked", header.Typeflag)
}

// setParent makes dir the current parent. It creates missing directories with mode 0755.
func (u *unpacker) setParent(dir string) error {
	if u.parent != nil && u.dir == dir {
		return nil
	}
	u.closeParent()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	if err := refuseKernelFiles(root); err != nil {
		return errors.Join(err, root.Close())
	}
	u.dir, u.parent = dir, root
	return nil
}

func (u *unpacker) closeParent() {
	if u.parent != nil {
		u.parent.Close()
		u.parent = nil
	}
}

var errKernelFiles = errors.New("a link leads to a file system of the kernel, and nothing is copied from or to it")

// refuseKernelFiles returns an error if root is in a file system of the kernel's. Links can lead
// there, and files would be written with the rights of process 1.
func refuseKernelFiles(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	var stat unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &stat); err != nil {
		return err
	}
	switch stat.Type {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.DEVPTS_SUPER_MAGIC:
		return errKernelFiles
	}
	return nil
}

// clearPath removes the file at name. It reports whether there is a directory into which to merge.
func (u *unpacker) clearPath(name string, directory bool) (merged bool, err error) {
	info, err := u.parent.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	switch {
	case directory && info.IsDir():
		return true, nil
	case u.replace:
		u.dropTimes(path.Join(u.dir, name))
		return false, u.parent.RemoveAll(name)
	case directory:
		return false, errors.New("a file is in the place of a directory")
	case info.IsDir():
		return false, errors.New("a directory is in the place of a file")
	}
	return false, u.parent.Remove(name)
}

// dropTimes drops the recorded times of a removed directory and of those in it.
func (u *unpacker) dropTimes(removed string) {
	kept := u.times[:0]
	for _, dir := range u.times {
		if dir.path != removed && !strings.HasPrefix(dir.path, removed+"/") {
			kept = append(kept, dir)
		}
	}
	u.times = kept
}

func (u *unpacker) makeDir(full, name string, header *tar.Header, merged bool) error {
	if !merged {
		if err := u.parent.Mkdir(name, 0o755); err != nil {
			return err
		}
	}
	if err := u.setOwner(name, header); err != nil {
		return err
	}
	u.times = append(u.times, dirTime{full, header.ModTime})
	return u.parent.Chmod(name, mode(header))
}

func (u *unpacker) writeFile(name string, header *tar.Header, content io.Reader) error {
	f, err := u.parent.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.Copy(f, content); err != nil {
		return err
	}
	if err := u.setOwner(name, header); err != nil {
		return err
	}
	if err := f.Chmod(mode(header)); err != nil { // after the owner, which takes setuid away
		return err
	}
	if err := u.parent.Chtimes(name, time.Time{}, header.ModTime); err != nil {
		return err
	}
	return f.Close()
}

// setOwner sets an entry's owner and attributes. It does not change the owner in a sandbox with one
// id.
func (u *unpacker) setOwner(name string, header *tar.Header) error {
	if !u.oneID {
		if err := u.parent.Lchown(name, header.Uid, header.Gid); err != nil {
			return err
		}
	}
	for key, value := range header.PAXRecords {
		attr, ok := strings.CutPrefix(key, "SCHILY.xattr.")
		if !ok || strings.HasPrefix(attr, "trusted.") || strings.HasPrefix(attr, "user.overlay.") {
			continue
		}
		err := unix.Lsetxattr(path.Join(u.dir, name), attr, []byte(value), 0)
		if err != nil && !errors.Is(err, unix.ENOTSUP) && !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("set the attribute %s: %w", attr, err)
		}
	}
	return nil
}

// link makes full another name of a file; target is as in the stream.
func (u *unpacker) link(full, target string) error {
	return os.Link(path.Clean("/"+target), full)
}

// makeNode makes a pipe, or a device if the kernel permits it. Other devices are left out: /dev is
// the sandbox's own.
func (u *unpacker) makeNode(name string, header *tar.Header) error {
	kind := map[byte]uint32{tar.TypeFifo: unix.S_IFIFO, tar.TypeChar: unix.S_IFCHR, tar.TypeBlock: unix.S_IFBLK}[header.Typeflag]
	dir, err := u.parent.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	number := unix.Mkdev(uint32(header.Devmajor), uint32(header.Devminor))
	err = unix.Mknodat(int(dir.Fd()), name, kind|0o600, int(number))
	if errors.Is(err, syscall.EPERM) && header.Typeflag != tar.TypeFifo {
		return nil
	}
	if err != nil {
		return err
	}
	if err := u.setOwner(name, header); err != nil {
		return err
	}
	return u.parent.Chmod(name, mode(header))
}

// mode returns an entry's permissions, with setuid, setgid and sticky.
func mode(header *tar.Header) fs.FileMode {
	return header.FileInfo().Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
}
