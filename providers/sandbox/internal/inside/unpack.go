//go:build linux

package inside

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
	defer u.leave()
	return u.all(tar.NewReader(files[0]))
}

// unpacker unpacks one tar stream at "/". What the agent has made of the file system meanwhile, it may
// lead files astray, but only within the sandbox: links in parents are followed, the last element of a
// path never is.
type unpacker struct {
	replace bool
	oneID   bool

	dir    string // the folder that parent is
	parent *os.Root
	times  []folderTime
}

// folderTime is set when everything is in place: what is put into a folder changes its time.
type folderTime struct {
	path string
	time time.Time
}

func (u *unpacker) all(archive *tar.Reader) error {
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read the archive: %w", err)
		}
		if err := u.entry(header, archive); err != nil {
			return fmt.Errorf("/%s: %w", header.Name, err)
		}
	}
	for _, folder := range u.times {
		if err := os.Chtimes(folder.path, time.Time{}, folder.time); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacker) entry(header *tar.Header, content io.Reader) error {
	full := path.Clean("/" + header.Name)
	if full == "/" {
		return nil
	}
	dir, name := path.Split(full)
	if err := u.enter(path.Clean(dir)); err != nil {
		return err
	}
	merged, err := u.makeWay(name, header.Typeflag == tar.TypeDir)
	if err != nil || merged && header.Typeflag != tar.TypeDir {
		return err
	}
	switch header.Typeflag {
	case tar.TypeDir:
		return u.folder(full, name, header, merged)
	case tar.TypeReg, tar.TypeGNUSparse:
		return u.file(name, header, content)
	case tar.TypeSymlink:
		if err := u.parent.Symlink(header.Linkname, name); err != nil {
			return err
		}
		return u.own(name, header)
	case tar.TypeLink:
		return u.link(full, header.Linkname)
	case tar.TypeFifo, tar.TypeChar, tar.TypeBlock:
		return u.device(name, header)
	}
	return fmt.Errorf("an entry of type %q cannot be unpacked", header.Typeflag)
}

// enter makes dir the current parent. Missing folders are made, 0755.
func (u *unpacker) enter(dir string) error {
	if u.parent != nil && u.dir == dir {
		return nil
	}
	u.leave()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	if err := realFiles(root); err != nil {
		return errors.Join(err, root.Close())
	}
	u.dir, u.parent = dir, root
	return nil
}

func (u *unpacker) leave() {
	if u.parent != nil {
		u.parent.Close()
		u.parent = nil
	}
}

var errKernelFiles = errors.New("a link leads to the kernel's files, where nothing is copied from or to")

// realFiles keeps away from what is no file system of files: links can lead there, and what is written
// would be written with the rights of process 1.
func realFiles(root *os.Root) error {
	folder, err := root.Open(".")
	if err != nil {
		return err
	}
	defer folder.Close()
	var stat unix.Statfs_t
	if err := unix.Fstatfs(int(folder.Fd()), &stat); err != nil {
		return err
	}
	switch stat.Type {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.DEVPTS_SUPER_MAGIC:
		return errKernelFiles
	}
	return nil
}

// makeWay removes what stands at name, and reports whether there is a folder to merge into.
func (u *unpacker) makeWay(name string, folder bool) (merged bool, err error) {
	info, err := u.parent.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	switch {
	case folder && info.IsDir():
		return true, nil
	case u.replace:
		u.forget(path.Join(u.dir, name))
		return false, u.parent.RemoveAll(name)
	case folder:
		return false, errors.New("a file is where the folder should be")
	case info.IsDir():
		return false, errors.New("a folder is where the file should be")
	}
	return false, u.parent.Remove(name)
}

// forget drops what was noted for folders at or below one that is removed.
func (u *unpacker) forget(removed string) {
	kept := u.times[:0]
	for _, folder := range u.times {
		if folder.path != removed && !strings.HasPrefix(folder.path, removed+"/") {
			kept = append(kept, folder)
		}
	}
	u.times = kept
}

func (u *unpacker) folder(full, name string, header *tar.Header, merged bool) error {
	if !merged {
		if err := u.parent.Mkdir(name, 0o755); err != nil {
			return err
		}
	}
	if err := u.own(name, header); err != nil {
		return err
	}
	u.times = append(u.times, folderTime{full, header.ModTime})
	return u.parent.Chmod(name, mode(header))
}

func (u *unpacker) file(name string, header *tar.Header, content io.Reader) error {
	f, err := u.parent.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.Copy(f, content); err != nil {
		return err
	}
	if err := u.own(name, header); err != nil {
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

// own gives an entry its owner and its attributes. It leaves the sandbox's only one where there is one.
func (u *unpacker) own(name string, header *tar.Header) error {
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

// device makes pipes, and devices where the kernel allows it; elsewhere they are left out, as /dev is
// the sandbox's own anyway.
func (u *unpacker) device(name string, header *tar.Header) error {
	kind := map[byte]uint32{tar.TypeFifo: unix.S_IFIFO, tar.TypeChar: unix.S_IFCHR, tar.TypeBlock: unix.S_IFBLK}[header.Typeflag]
	folder, err := u.parent.Open(".")
	if err != nil {
		return err
	}
	defer folder.Close()
	number := unix.Mkdev(uint32(header.Devmajor), uint32(header.Devminor))
	err = unix.Mknodat(int(folder.Fd()), name, kind|0o600, int(number))
	if errors.Is(err, syscall.EPERM) && header.Typeflag != tar.TypeFifo {
		return nil
	}
	if err != nil {
		return err
	}
	if err := u.own(name, header); err != nil {
		return err
	}
	return u.parent.Chmod(name, mode(header))
}

// mode is an entry's permissions, with setuid, setgid and sticky.
func mode(header *tar.Header) fs.FileMode {
	return header.FileInfo().Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
}
