//go:build linux

package oci

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// PackOptions controls how a layer is packed.
type PackOptions struct {
	// Xattr is XattrTrusted or XattrUser.
	Xattr string
	// Opaque marks the layer as hiding all layers below. See Report.
	Opaque bool
}

// Pack writes the layer in dir, which is in overlayfs's form, as a tar archive. It is the inverse
// of Unpack: character devices 0/0 become whiteouts, and the attribute overlay.opaque becomes a
// mark in the directory. dir must not change meanwhile. The output is deterministic. Sockets are
// left out. dir itself has no entry.
//
// Source: the OCI image specification, layer.md.
func Pack(ctx context.Context, dir string, w io.Writer, opts PackOptions) error {
	if opts.Xattr != XattrTrusted && opts.Xattr != XattrUser {
		return fmt.Errorf("pack layer: Xattr is %q, neither %q nor %q", opts.Xattr, XattrTrusted, XattrUser)
	}
	root, err := unix.Open(dir, openDirFlags|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("pack layer %s: %w", dir, err)
	}
	p := &packer{opts: opts, tw: tar.NewWriter(w), links: map[inode]string{}}
	if opts.Opaque {
		err = p.mark(opaqueName)
	}
	if err == nil {
		err = p.dir(ctx, root, "")
	} else {
		_ = unix.Close(root)
	}
	if err == nil {
		err = p.tw.Close()
	}
	if err != nil {
		return fmt.Errorf("pack layer %s: %w", dir, err)
	}
	return nil
}

// inode identifies a file.
type inode struct{ dev, ino uint64 }

type packer struct {
	opts  PackOptions
	tw    *tar.Writer
	links map[inode]string // first names of files with several names
}

// dir writes the content of the directory fd, and closes fd. name ends in a slash, or is empty.
func (p *packer) dir(ctx context.Context, fd int, name string) error {
	open := os.NewFile(uintptr(fd), name)
	defer open.Close()
	entries, err := open.Readdirnames(-1)
	if err != nil {
		return err
	}
	slices.Sort(entries)
	for _, base := range entries {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := p.entry(ctx, fd, base, name+base); err != nil {
			return fmt.Errorf("%q: %w", name+base, err)
		}
	}
	return nil
}

// mark writes an empty file with a reserved name.
func (p *packer) mark(name string) error {
	return p.tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, ModTime: time.Unix(0, 0), Format: tar.FormatPAX})
}

// entry writes the file or directory base in the directory at.
func (p *packer) entry(ctx context.Context, at int, base, name string) error {
	if strings.HasPrefix(base, whiteoutPrefix) {
		return errors.New("layers cannot have a file whose name begins with " + whiteoutPrefix + ": it would remove another")
	}
	var st unix.Stat_t
	if err := unix.Fstatat(at, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if isWhiteout(&st) {
		return p.mark(path.Join(path.Dir(name), whiteoutPrefix+base))
	}
	header := &tar.Header{
		Name: name, Mode: int64(st.Mode & 0o7777), Uid: int(st.Uid), Gid: int(st.Gid), Format: tar.FormatPAX,
		ModTime: time.Unix(st.Mtim.Unix()).Truncate(time.Second), // like Docker
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return p.subdir(ctx, at, base, header)
	case unix.S_IFREG:
		return p.file(at, base, header, st)
	case unix.S_IFLNK:
		target, err := readLink(at, base)
		if err != nil {
			return err
		}
		header.Typeflag, header.Linkname = tar.TypeSymlink, target
	case unix.S_IFCHR:
		header.Typeflag = tar.TypeChar
		header.Devmajor, header.Devminor = int64(unix.Major(st.Rdev)), int64(unix.Minor(st.Rdev))
	case unix.S_IFBLK:
		header.Typeflag = tar.TypeBlock
		header.Devmajor, header.Devminor = int64(unix.Major(st.Rdev)), int64(unix.Minor(st.Rdev))
	case unix.S_IFIFO:
		header.Typeflag = tar.TypeFifo
	default:
		return nil // sockets are useless without their program
	}
	return p.tw.WriteHeader(header)
}

func readLink(at int, base string) (string, error) {
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(at, base, target)
	return string(target[:max(n, 0)]), err
}

// subdir writes a directory with its content.
func (p *packer) subdir(ctx context.Context, at int, base string, header *tar.Header) error {
	fd, err := unix.Openat(at, base, openDirFlags|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	header.Typeflag, header.Name = tar.TypeDir, header.Name+"/"
	opaque, err := p.attributes(fd, header)
	if err == nil {
		err = p.tw.WriteHeader(header)
	}
	if err == nil && opaque {
		err = p.mark(header.Name + opaqueName)
	}
	if err != nil {
		_ = unix.Close(fd)
		return err
	}
	return p.dir(ctx, fd, header.Name)
}

// file writes a regular file, or a hard link if the file was written under another name.
func (p *packer) file(at int, base string, header *tar.Header, st unix.Stat_t) error {
	if st.Nlink > 1 {
		id := inode{st.Dev, st.Ino}
		if first, seen := p.links[id]; seen {
			header.Typeflag, header.Linkname = tar.TypeLink, first
			return p.tw.WriteHeader(header)
		}
		p.links[id] = header.Name
	}
	fd, err := unix.Openat(at, base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	content := os.NewFile(uintptr(fd), base)
	defer content.Close()
	header.Typeflag, header.Size = tar.TypeReg, st.Size
	if _, err := p.attributes(fd, header); err != nil {
		return err
	}
	if err := p.tw.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.CopyN(p.tw, content, st.Size)
	return err
}

// attributes adds the extended attributes of a file or directory to its header, and reports whether
// it is marked as opaque.
func (p *packer) attributes(fd int, header *tar.Header) (opaque bool, err error) {
	list, err := readAttribute(func(into []byte) (int, error) { return unix.Flistxattr(fd, into) })
	if errors.Is(err, unix.ENOTSUP) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("list its attributes: %w", err)
	}
	names := strings.Split(string(list), "\x00")
	slices.Sort(names)
	for _, name := range names {
		overlay, isOverlay := strings.CutPrefix(name, p.opts.Xattr+".overlay.")
		if !isOverlay && !keepXattr(name) || strings.Contains(name, "=") { // invalid in tar records
			continue
		}
		value, err := readAttribute(func(into []byte) (int, error) { return unix.Fgetxattr(fd, name, into) })
		if err != nil {
			return false, fmt.Errorf("read its attribute %s: %w", name, err)
		}
		switch {
		case !isOverlay:
			if header.PAXRecords == nil {
				header.PAXRecords = map[string]string{}
			}
			header.PAXRecords[paxXattr+name] = string(value)
		case overlay == "opaque":
			opaque = opaque || string(value) == "y"
		case overlay == "redirect" || overlay == "metacopy":
			// Its content is in another layer. Mounts are made so that this does not happen.
			return false, fmt.Errorf("overlayfs has kept a part of it elsewhere (%s), which layers cannot say", name)
		}
	}
	return opaque, nil
}

// readAttribute calls read with a buffer of sufficient size.
func readAttribute(read func(into []byte) (int, error)) ([]byte, error) {
	const limit = 64 << 10 // of one attribute, or of all names. Source: linux/limits.h
	for size := 256; ; size *= 4 {
		into := make([]byte, min(size, limit))
		n, err := read(into)
		if errors.Is(err, unix.ERANGE) && size < limit {
			continue
		}
		return into[:max(n, 0)], err
	}
}
