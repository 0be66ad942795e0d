//go:build linux

package oci

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// isWhiteout reports whether a file is overlayfs's whiteout: the character device 0/0.
func isWhiteout(st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0
}

// whiteout hides base in the layers below. It keeps this layer's own file of that name, regardless
// of their order: whiteouts affect lower layers only. Source: the OCI image specification,
// layer.md.
func (u *unpacker) whiteout(at int, base string) error {
	err := unix.Mknodat(at, base, unix.S_IFCHR, 0)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("make overlayfs's mark for a removed file (other users than root may since Linux 5.8): %w", err)
	case !errors.Is(err, unix.EEXIST):
		return err
	}
	fd, err := unix.Openat(at, base, openDirFlags|unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil // any file but a directory hides the lower one without a mark
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return u.setOpaque(fd)
}

// makeOpaque makes the directory name, open as fd, hide its content in lower layers.
func (u *unpacker) makeOpaque(fd int, name string) error {
	if name == "." {
		u.report.Opaque = true
	}
	return u.setOpaque(fd)
}

func (u *unpacker) setOpaque(fd int) error {
	name := u.opts.Xattr + ".overlay.opaque"
	if err := unix.Fsetxattr(fd, name, []byte("y"), 0); err != nil {
		return fmt.Errorf("set %s: %w", name, err)
	}
	return nil
}
