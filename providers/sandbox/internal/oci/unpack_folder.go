//go:build linux

package oci

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// folderMeta is what a folder gets at the end, when nothing is put into it any more.
type folderMeta struct {
	mode  uint32
	mtime *unix.Timespec // nil: no entry named the folder
}

// unlisted is the mode of folders that no entry names.
const unlisted = 0o755

const openFolder = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC

func newUnpacker(ctx context.Context, dir string, opts UnpackOptions) (*unpacker, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	if len(entries) > 0 {
		return nil, fmt.Errorf("the folder %s is not empty: a layer is unpacked into one of its own", dir)
	}
	root, err := unix.Open(dir, openFolder, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	u := &unpacker{
		ctx: ctx, opts: opts, dir: dir, root: root, buf: make([]byte, pieceSize),
		recent: -1, folders: map[uint64]folderMeta{},
	}
	if err := u.remember(root, folderMeta{mode: unlisted}); err != nil {
		u.close()
		return nil, err
	}
	return u, nil
}

func (u *unpacker) close() {
	if u.recent >= 0 {
		_ = unix.Close(u.recent)
	}
	_ = unix.Close(u.root)
}

// remember notes what the folder fd is to get at the end.
func (u *unpacker) remember(fd int, meta folderMeta) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	u.folders[st.Ino] = meta
	return nil
}

// folder opens the folder name, made if it is missing. The descriptor is good until folder is called
// again, and folder closes it.
func (u *unpacker) folder(name string) (int, error) {
	if u.recent >= 0 && u.recentName == name {
		return u.recent, nil
	}
	fd, err := u.lookUp(name)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		fd, err = u.missingFolder(name)
	}
	if err != nil {
		return -1, err
	}
	if u.recent >= 0 {
		_ = unix.Close(u.recent)
	}
	u.recent, u.recentName = fd, name
	return fd, nil
}

// lookUp opens a folder that is there. Links are followed as if dir were the root.
func (u *unpacker) lookUp(name string) (int, error) {
	how := unix.OpenHow{Flags: openFolder, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	for {
		fd, err := unix.Openat2(u.root, name, &how)
		// EAGAIN: something was renamed elsewhere while ".." in a link was looked up. Source: openat2(2).
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			if u.ctx.Err() != nil {
				return -1, context.Cause(u.ctx)
			}
			continue
		}
		return fd, err
	}
}

// missingFolder makes the folder name, which cannot be opened, and those above it.
func (u *unpacker) missingFolder(name string) (int, error) {
	if name == "." {
		return -1, unix.ENOENT // somebody removed dir
	}
	at, err := u.folder(path.Dir(name))
	if err != nil {
		return -1, err
	}
	if err := u.countFile(); err != nil {
		return -1, err
	}
	fd, err := u.makeFolder(at, path.Base(name), false)
	if errors.Is(err, unix.EEXIST) {
		return -1, fmt.Errorf("%q is no folder in this layer, nor a link to one", name)
	}
	return fd, err
}

// makeFolder makes and opens the folder base in at, or opens the one that is there. A whiteout in its
// place is replaced, and the folder made opaque: it hides what the whiteout hid. Anything else is replaced
// only if replace is set; without it the error is EEXIST.
func (u *unpacker) makeFolder(at int, base string, replace bool) (fd int, err error) {
	opaque := false
	err = unix.Mkdirat(at, base, 0o700)
	if errors.Is(err, unix.EEXIST) {
		var st unix.Stat_t
		if err := unix.Fstatat(at, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return -1, err
		}
		opaque = isWhiteout(&st)
		switch {
		case st.Mode&unix.S_IFMT == unix.S_IFDIR:
			return unix.Openat(at, base, openFolder|unix.O_NOFOLLOW, 0)
		case !opaque && !replace:
			return -1, unix.EEXIST
		}
		if err := u.remove(at, base); err != nil {
			return -1, err
		}
		err = unix.Mkdirat(at, base, 0o700)
	}
	if err != nil {
		return -1, err
	}
	fd, err = unix.Openat(at, base, openFolder|unix.O_NOFOLLOW, 0)
	if err != nil {
		return -1, err
	}
	if err = u.remember(fd, folderMeta{mode: unlisted}); err == nil && opaque {
		err = u.setOpaque(fd)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// remove removes base in at, with all below it if it is a folder.
func (u *unpacker) remove(at int, base string) error {
	// A link that goes may be one by which the folder that is kept open was reached.
	u.recentName = ""
	err := unix.Unlinkat(at, base, 0)
	if !errors.Is(err, unix.EISDIR) {
		return err
	}
	fd, err := unix.Openat(at, base, openFolder|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	folder := os.NewFile(uintptr(fd), base)
	defer folder.Close()
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := u.remove(fd, name); err != nil {
			return err
		}
	}
	// What is remembered of it stays until its inode's number belongs to another folder.
	return unix.Unlinkat(at, base, unix.AT_REMOVEDIR)
}

// finish gives folders their times and modes, the deepest first: a folder cannot be entered any more once
// its mode says so, and its time changes with what is done in it.
func (u *unpacker) finish() error {
	fd, err := unix.Dup(u.root)
	if err != nil {
		return err
	}
	return u.finishFolder(fd, u.dir)
}

func (u *unpacker) finishFolder(fd int, name string) error {
	folder := os.NewFile(uintptr(fd), name)
	defer folder.Close()
	if u.ctx.Err() != nil {
		return context.Cause(u.ctx)
	}
	entries, err := folder.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		child, err := unix.Openat(fd, e.Name(), openFolder|unix.O_NOFOLLOW, 0)
		if err != nil {
			return &fs.PathError{Op: "open", Path: filepath.Join(name, e.Name()), Err: err}
		}
		if err := u.finishFolder(child, filepath.Join(name, e.Name())); err != nil {
			return err
		}
	}
	if err := u.settle(fd); err != nil {
		return &fs.PathError{Op: "set the mode and time of", Path: name, Err: err}
	}
	return nil
}

// settle gives the folder fd what was remembered for it.
func (u *unpacker) settle(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	meta, known := u.folders[st.Ino]
	if !known {
		return errors.New("somebody else made this folder") // or the inode numbers of this file system change
	}
	if meta.mtime != nil {
		if err := setTime(fd, ".", *meta.mtime); err != nil {
			return err
		}
	}
	return unix.Fchmod(fd, meta.mode)
}
