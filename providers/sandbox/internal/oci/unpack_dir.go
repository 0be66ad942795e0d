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

// dirMeta holds the metadata that a directory gets at the end, when it is complete.
type dirMeta struct {
	mode  uint32
	mtime *unix.Timespec // nil: no entry for the directory
}

// defaultDirMode is the mode of directories without an entry.
const defaultDirMode = 0o755

const openDirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC

func newUnpacker(dir string, opts UnpackOptions) (*unpacker, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	if len(entries) > 0 {
		return nil, fmt.Errorf("the directory %s is not empty: a layer needs an empty directory", dir)
	}
	root, err := unix.Open(dir, openDirFlags, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	u := &unpacker{
		opts: opts, dir: dir, root: root, buf: make([]byte, pieceSize),
		recent: -1, dirs: map[uint64]dirMeta{},
	}
	if err := u.remember(root, dirMeta{mode: defaultDirMode}); err != nil {
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

// remember records the final metadata of the directory fd.
func (u *unpacker) remember(fd int, meta dirMeta) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	u.dirs[st.Ino] = meta
	return nil
}

// openDir opens the directory name, and creates it if it is missing. The descriptor is valid until
// the next call of openDir, which closes it.
func (u *unpacker) openDir(name string) (int, error) {
	if u.recent >= 0 && u.recentName == name {
		return u.recent, nil
	}
	fd, err := u.lookUp(name)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		fd, err = u.makeMissingDir(name)
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

// maxTries bounds how often lookUp repeats an interrupted call.
const maxTries = 1000

// lookUp opens an existing directory. It follows links as if dir were the root.
func (u *unpacker) lookUp(name string) (int, error) {
	how := unix.OpenHow{Flags: openDirFlags, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	for tries := 0; ; {
		fd, err := unix.Openat2(u.root, name, &how)
		// EAGAIN: a concurrent rename while ".." in a link was looked up. Source: openat2(2).
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			if tries++; tries < maxTries {
				continue
			}
		}
		return fd, err
	}
}

// makeMissingDir creates the directory name, which cannot be opened, and its parents.
func (u *unpacker) makeMissingDir(name string) (int, error) {
	if name == "." {
		return -1, unix.ENOENT // dir was removed by another process
	}
	at, err := u.openDir(path.Dir(name))
	if err != nil {
		return -1, err
	}
	if err := u.countFile(); err != nil {
		return -1, err
	}
	fd, err := u.makeDir(at, path.Base(name), false)
	if errors.Is(err, unix.EEXIST) {
		return -1, fmt.Errorf("%q is not a directory in this layer, nor a link to one", name)
	}
	return fd, err
}

// makeDir opens the directory base in at, and creates it if it does not exist. It replaces a
// whiteout by an opaque directory, which hides what the whiteout hid. It replaces anything else
// only if replace is set; otherwise the error is EEXIST.
func (u *unpacker) makeDir(at int, base string, replace bool) (fd int, err error) {
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
			return unix.Openat(at, base, openDirFlags|unix.O_NOFOLLOW, 0)
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
	fd, err = unix.Openat(at, base, openDirFlags|unix.O_NOFOLLOW, 0)
	if err != nil {
		return -1, err
	}
	if err = u.remember(fd, dirMeta{mode: defaultDirMode}); err == nil && opaque {
		err = u.setOpaque(fd)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// remove removes base in at, with its content.
func (u *unpacker) remove(at int, base string) error {
	// The kept directory may have been opened through a link that is removed here.
	u.recentName = ""
	err := unix.Unlinkat(at, base, 0)
	if !errors.Is(err, unix.EISDIR) {
		return err
	}
	fd, err := unix.Openat(at, base, openDirFlags|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(fd), base)
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := u.remove(fd, name); err != nil {
			return err
		}
	}
	// Its record in dirs stays until another directory gets the inode number.
	return unix.Unlinkat(at, base, unix.AT_REMOVEDIR)
}

// finish sets the times and modes of directories, the deepest first: the mode may forbid entering a
// directory, and changes in a directory change its time.
func (u *unpacker) finish(ctx context.Context) error {
	fd, err := unix.Dup(u.root)
	if err != nil {
		return err
	}
	return u.finishDir(ctx, fd, u.dir)
}

func (u *unpacker) finishDir(ctx context.Context, fd int, name string) error {
	dir := os.NewFile(uintptr(fd), name)
	defer dir.Close()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		child, err := unix.Openat(fd, e.Name(), openDirFlags|unix.O_NOFOLLOW, 0)
		if err != nil {
			return &fs.PathError{Op: "open", Path: filepath.Join(name, e.Name()), Err: err}
		}
		if err := u.finishDir(ctx, child, filepath.Join(name, e.Name())); err != nil {
			return err
		}
	}
	if err := u.applyDirMeta(fd); err != nil {
		return &fs.PathError{Op: "set the mode and time of", Path: name, Err: err}
	}
	return nil
}

// applyDirMeta applies the recorded metadata to the directory fd.
func (u *unpacker) applyDirMeta(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	meta, known := u.dirs[st.Ino]
	if !known {
		return errors.New("somebody else made this directory") // or the inode numbers of this file system are not stable
	}
	if meta.mtime != nil {
		if err := setTime(fd, ".", *meta.mtime); err != nil {
			return err
		}
	}
	return unix.Fchmod(fd, meta.mode)
}
