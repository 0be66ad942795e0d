//go:build linux

package oci

import (
	"archive/tar"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// paxXattr is the prefix of records that hold extended attributes. Source: star's manual; GNU tar,
// bsdtar and Docker write them.
const paxXattr = "SCHILY.xattr."

// xattrs sets the attributes of a file or directory, as far as this file system and user permit.
func (u *unpacker) xattrs(fd int, hdr *tar.Header) error {
	for _, record := range slices.Sorted(maps.Keys(hdr.PAXRecords)) {
		name, is := strings.CutPrefix(record, paxXattr)
		if !is || !keepXattr(name) {
			continue
		}
		err := unix.Fsetxattr(fd, name, []byte(hdr.PAXRecords[record]), 0)
		switch err {
		case nil:
		case unix.ENOTSUP, unix.EPERM, unix.EINVAL, unix.E2BIG, unix.ERANGE, unix.ENOSPC:
			// ext4 returns ENOSPC for a value larger than its single block. A full disk shows
			// elsewhere.
			u.skip(hdr.Name, "attribute "+name+": "+err.Error())
		default:
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}

// keepXattr reports whether an attribute is portable between file systems: those of programs, and
// capabilities. With overlayfs's own attributes an archive could redirect directories.
func keepXattr(name string) bool {
	return name == "security.capability" ||
		strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "user.overlay.")
}
