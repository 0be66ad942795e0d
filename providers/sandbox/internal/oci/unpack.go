//go:build linux

package oci

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/lib/ctxio"
)

// The namespaces of overlayfs's extended attributes: "user" with the mount option userxattr, which
// mounts in a user namespace need; "trusted" otherwise, which requires CAP_SYS_ADMIN. Source: the
// kernel's Documentation/filesystems/overlayfs.rst.
const (
	XattrTrusted = "trusted"
	XattrUser    = "user"
)

// Default limits of a layer.
const (
	defaultMaxBytes = 64 << 30
	defaultMaxFiles = 5_000_000
)

// ErrLimit reports an archive that exceeds the limits of UnpackOptions.
var ErrLimit = errors.New("the layer is larger than allowed")

// UnpackOptions controls how a layer is unpacked.
type UnpackOptions struct {
	// Xattr is XattrTrusted or XattrUser.
	Xattr string
	// Owners gives files the owners in the archive. Otherwise they belong to the caller.
	Owners bool
	// MaxBytes limits the sum of the files' sizes, holes included; 0 is 64 GiB.
	MaxBytes int64
	// MaxFiles limits the number of entries and of directories made for them; 0 is 5,000,000.
	MaxFiles int
}

// Report is the result of unpacking a layer.
type Report struct {
	Files int   // entries, and directories without an entry
	Bytes int64 // of regular files, holes included
	// Opaque: the layer hides all layers below. overlayfs has no mark for that at the top of a
	// layer, so the layers below have to be left out.
	Opaque bool
	// Skipped lists the first of the SkippedCount files and attributes that this file system or
	// user could not create, mostly device nodes: the quoted name and the reason.
	Skipped      []string
	SkippedCount int
}

// maxSkipped bounds the length of Report.Skipped.
const maxSkipped = 100

// Unpack unpacks r, the uncompressed tar archive of one layer, into dir in overlayfs's form:
// whiteouts become character devices 0/0 (all users may make those since Linux 5.8), opaque
// directories get the attribute overlay.opaque. dir exists and is empty; it gets the mode 0755 if
// the archive does not name another. r is read to its end, past the end of the archive, so that a
// verifying reader can check it. After an error dir holds a part of the layer.
//
// No archive can make Unpack change files outside of dir: names that lead out of it are errors, and
// links from earlier entries are followed as if dir were the root. Set-user-id programs and devices
// are really created, so dir belongs below a directory that only the caller can enter.
//
// Source: the OCI image specification, layer.md.
func Unpack(ctx context.Context, r io.Reader, dir string, opts UnpackOptions) (Report, error) {
	if opts.Xattr != XattrTrusted && opts.Xattr != XattrUser {
		return Report{}, fmt.Errorf("unpack layer: Xattr is %q, neither %q nor %q", opts.Xattr, XattrTrusted, XattrUser)
	}
	opts.MaxBytes = cmp.Or(opts.MaxBytes, defaultMaxBytes)
	opts.MaxFiles = cmp.Or(opts.MaxFiles, defaultMaxFiles)
	u, err := newUnpacker(dir, opts)
	if err != nil {
		return Report{}, fmt.Errorf("unpack layer: %w", err)
	}
	defer u.close()
	if err := u.unpack(ctx, r); err != nil {
		return u.report, fmt.Errorf("unpack layer: %w", err)
	}
	return u.report, nil
}

// unpacker unpacks one layer. Directories have the mode 0700 until the end, because an ordinary
// user could not fill read-only ones.
type unpacker struct {
	opts   UnpackOptions
	dir    string
	root   int // dir
	report Report
	buf    []byte

	// recent is the most recently opened directory: neighbours in an archive are mostly in one
	// directory.
	recent     int // -1: none
	recentName string

	// dirs is keyed by inode, because a directory may be reached by several names.
	dirs map[uint64]dirMeta
}

func (u *unpacker) unpack(ctx context.Context, r io.Reader) error {
	r = ctxio.NewReader(ctx, r)
	archive := tar.NewReader(r)
	content := ctxio.NewReader(ctx, archive) // holes of sparse files are not read from r
	for {
		hdr, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		// Next may reject names that lead outside; they are checked below anyway.
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
			return fmt.Errorf("read the archive: %w", err)
		}
		if err := u.entry(hdr, content); err != nil {
			return fmt.Errorf("entry %q: %w", hdr.Name, err)
		}
	}
	if err := u.drain(r); err != nil {
		return fmt.Errorf("read the archive: %w", err)
	}
	return u.finish(ctx)
}

// drain reads the padding after the end of the archive.
func (u *unpacker) drain(r io.Reader) error {
	for left := u.opts.MaxBytes; ; {
		n, err := r.Read(u.buf)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if left -= int64(n); left < 0 {
			return fmt.Errorf("%w: more than %d bytes follow the archive's end", ErrLimit, u.opts.MaxBytes)
		}
	}
}

// entry unpacks one entry, whose data it reads from r.
func (u *unpacker) entry(hdr *tar.Header, r io.Reader) error {
	if hdr.Typeflag == tar.TypeXGlobalHeader {
		return nil // describes the archive, not a file
	}
	if err := u.count(hdr); err != nil {
		return err
	}
	name, err := relativeName(hdr.Name)
	if err != nil {
		return err
	}
	kind, err := kindOf(name)
	if err != nil || kind == aufsData {
		return err
	}
	if name == "." {
		return u.unpackTop(hdr)
	}
	parent, base := path.Dir(name), path.Base(name)
	at, err := u.openDir(parent)
	if err != nil {
		return err
	}
	switch kind {
	case opaqueMark:
		return u.makeOpaque(at, parent)
	case whiteout:
		return u.whiteout(at, base[len(whiteoutPrefix):])
	default:
		return u.unpackAs(at, base, hdr, r)
	}
}

// unpackAs creates the file of an entry as base in the directory at, in place of an existing one.
func (u *unpacker) unpackAs(at int, base string, hdr *tar.Header, r io.Reader) error {
	switch hdr.Typeflag {
	case tar.TypeDir:
		return u.unpackDir(at, base, hdr)
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		return u.unpackFile(at, base, hdr, r)
	case tar.TypeSymlink:
		return u.symlink(at, base, hdr)
	case tar.TypeLink:
		return u.hardLink(at, base, hdr)
	case tar.TypeFifo:
		return u.node(at, base, hdr, unix.S_IFIFO)
	case tar.TypeChar:
		return u.node(at, base, hdr, unix.S_IFCHR)
	case tar.TypeBlock:
		return u.node(at, base, hdr, unix.S_IFBLK)
	default:
		return fmt.Errorf("unknown type of entry %q", hdr.Typeflag)
	}
}

// count adds an entry to the report, or returns ErrLimit.
func (u *unpacker) count(hdr *tar.Header) error {
	if hdr.Typeflag == tar.TypeReg || hdr.Typeflag == tar.TypeCont || hdr.Typeflag == tar.TypeGNUSparse {
		if hdr.Size > u.opts.MaxBytes-u.report.Bytes {
			return fmt.Errorf("%w: more than %d bytes", ErrLimit, u.opts.MaxBytes)
		}
		u.report.Bytes += hdr.Size
	}
	return u.countFile()
}

func (u *unpacker) countFile() error {
	if u.report.Files >= u.opts.MaxFiles {
		return fmt.Errorf("%w: more than %d files", ErrLimit, u.opts.MaxFiles)
	}
	u.report.Files++
	return nil
}

// skip records a file or attribute that could not be unpacked.
func (u *unpacker) skip(name, why string) {
	u.report.SkippedCount++
	if len(u.report.Skipped) < maxSkipped {
		u.report.Skipped = append(u.report.Skipped, fmt.Sprintf("%q: %s", name, why))
	}
}
