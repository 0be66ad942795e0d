//go:build linux

package oci

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"
)

// permissions masks the bits of a mode that chmod sets.
const permissions = 0o7777

// unpackTop unpacks an entry for the root of the layer.
func (u *unpacker) unpackTop(hdr *tar.Header) error {
	if hdr.Typeflag != tar.TypeDir {
		return errors.New("the root of a layer must be a directory")
	}
	return u.setDirMeta(u.root, hdr)
}

func (u *unpacker) unpackDir(at int, base string, hdr *tar.Header) error {
	fd, err := u.makeDir(at, base, true)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return u.setDirMeta(fd, hdr)
}

// setDirMeta sets a directory's owner and attributes. Its mode and time are set at the end.
func (u *unpacker) setDirMeta(fd int, hdr *tar.Header) error {
	if err := u.chown(hdr, func(uid, gid int) error { return unix.Fchown(fd, uid, gid) }); err != nil {
		return err
	}
	if err := u.xattrs(fd, hdr); err != nil {
		return err
	}
	mtime := timespec(hdr.ModTime)
	return u.remember(fd, dirMeta{mode: uint32(hdr.Mode & permissions), mtime: &mtime})
}

func (u *unpacker) unpackFile(at int, base string, hdr *tar.Header, r io.Reader) error {
	var fd int
	err := u.replacing(at, base, func() (err error) {
		fd, err = unix.Openat(at, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), base)
	defer f.Close()
	if err := copySparse(f, r, hdr.Size, u.buf); err != nil {
		return err
	}
	// Changing the owner takes away set-user-id bits and capabilities, so it comes first. The mode
	// comes last: the attributes of a read-only file are read-only to its owner.
	if err := u.chown(hdr, func(uid, gid int) error { return unix.Fchown(fd, uid, gid) }); err != nil {
		return err
	}
	if err := u.xattrs(fd, hdr); err != nil {
		return err
	}
	if err := unix.Fchmod(fd, uint32(hdr.Mode&permissions)); err != nil {
		return err
	}
	if err := setTime(at, base, timespec(hdr.ModTime)); err != nil {
		return err
	}
	return f.Close()
}

func (u *unpacker) symlink(at int, base string, hdr *tar.Header) error {
	err := u.replacing(at, base, func() error { return unix.Symlinkat(hdr.Linkname, at, base) })
	if err != nil {
		return err
	}
	if err := u.chownAt(at, base, hdr); err != nil {
		return err
	}
	return setTime(at, base, timespec(hdr.ModTime))
}

// hardLink creates another name for a file of this layer, which already has its owner, mode and
// times.
func (u *unpacker) hardLink(at int, base string, hdr *tar.Header) error {
	target, err := relativeName(hdr.Linkname)
	if err != nil {
		return fmt.Errorf("hard link to %q: %w", hdr.Linkname, err)
	}
	from, err := u.lookUp(path.Dir(target))
	if err != nil {
		return fmt.Errorf("hard link to %q, which this layer does not have: %w", hdr.Linkname, err)
	}
	defer unix.Close(from)
	var st unix.Stat_t
	if err := unix.Fstatat(from, path.Base(target), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("hard link to %q, which this layer does not have: %w", hdr.Linkname, err)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR || isWhiteout(&st) {
		return fmt.Errorf("hard link to %q, which is not a file", hdr.Linkname)
	}
	var old unix.Stat_t
	if err := unix.Fstatat(at, base, &old, unix.AT_SYMLINK_NOFOLLOW); err == nil && old.Ino == st.Ino {
		return nil // a link to itself, or a second one
	}
	err = u.replacing(at, base, func() error { return unix.Linkat(from, path.Base(target), at, base, 0) })
	if err != nil {
		return fmt.Errorf("hard link to %q: %w", hdr.Linkname, err)
	}
	return nil
}

// node creates a pipe or a device.
func (u *unpacker) node(at int, base string, hdr *tar.Header, kind uint32) error {
	dev := 0
	if kind != unix.S_IFIFO {
		if !isUint32(hdr.Devmajor) || !isUint32(hdr.Devminor) {
			return fmt.Errorf("there is no device %d/%d", hdr.Devmajor, hdr.Devminor)
		}
		dev = int(unix.Mkdev(uint32(hdr.Devmajor), uint32(hdr.Devminor)))
		if kind == unix.S_IFCHR && dev == 0 {
			u.skip(hdr.Name, "the character device 0/0 is overlayfs's whiteout; archives have another mark")
			return nil
		}
	}
	err := u.replacing(at, base, func() error { return unix.Mknodat(at, base, kind|0o600, dev) })
	if errors.Is(err, unix.EPERM) && kind != unix.S_IFIFO {
		u.skip(hdr.Name, "device nodes take a privilege that this process does not have")
		return nil
	}
	if err != nil {
		return err
	}
	if err := u.chownAt(at, base, hdr); err != nil {
		return err
	}
	if err := unix.Fchmodat(at, base, uint32(hdr.Mode&permissions), 0); err != nil {
		return err
	}
	return setTime(at, base, timespec(hdr.ModTime))
}

// replacing calls make. If the name is in use, it removes the old file and calls make again.
func (u *unpacker) replacing(at int, base string, make func() error) error {
	err := make()
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	if err := u.remove(at, base); err != nil {
		return err
	}
	return make()
}

func (u *unpacker) chownAt(at int, base string, hdr *tar.Header) error {
	return u.chown(hdr, func(uid, gid int) error {
		return unix.Fchownat(at, base, uid, gid, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// chown calls set with the entry's owner if UnpackOptions.Owners is set.
func (u *unpacker) chown(hdr *tar.Header, set func(uid, gid int) error) error {
	if !u.opts.Owners {
		return nil
	}
	// The largest number means "leave it" to the kernel.
	if !isUint32(int64(hdr.Uid)+1) || !isUint32(int64(hdr.Gid)+1) || hdr.Uid < 0 || hdr.Gid < 0 {
		return fmt.Errorf("there is no owner %d:%d", hdr.Uid, hdr.Gid)
	}
	if err := set(hdr.Uid, hdr.Gid); err != nil {
		return fmt.Errorf("make %d:%d its owner: %w", hdr.Uid, hdr.Gid, err)
	}
	return nil
}

func isUint32(n int64) bool {
	return n >= 0 && n <= math.MaxUint32
}

// timespec returns t for the kernel. A time that no file system can store becomes 1970.
func timespec(t time.Time) unix.Timespec {
	ts, err := unix.TimeToTimespec(t)
	if err != nil {
		return unix.Timespec{}
	}
	return ts
}

// setTime sets the modification time of base in at.
func setTime(at int, base string, mtime unix.Timespec) error {
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, mtime}
	return unix.UtimesNanoAt(at, base, times, unix.AT_SYMLINK_NOFOLLOW)
}
