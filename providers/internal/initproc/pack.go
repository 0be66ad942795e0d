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
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/providers/internal/initwire"
)

// packTo writes the file or directory at a path as a tar stream to the one file. It ends when the
// reader closes the stream.
func packTo(files []*os.File, request initwire.Request) error {
	defer closeFiles(files)
	if len(files) != 1 {
		return errors.New("packing needs one file")
	}
	// Links are followed in the path itself, never below it.
	follow, last := request.Path, ""
	if request.Itself {
		follow, last = path.Split(path.Clean(request.Path))
	}
	resolved, err := filepath.EvalSymlinks(follow)
	if err != nil {
		return err
	}
	resolved = path.Join(resolved, last)
	info, err := os.Lstat(resolved)
	if err != nil {
		return err
	}
	top := resolved
	if !info.IsDir() {
		top = path.Dir(resolved)
	}
	root, err := os.OpenRoot(top)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := refuseKernelFiles(root); err != nil {
		return err
	}
	p := packer{tw: tar.NewWriter(files[0]), root: root}
	if request.Plain {
		p.sockets, p.maxDepth = true, maxPlainDepth
	} else {
		p.links, p.attributes = map[inode]string{}, belongsToSandbox
	}
	name := "."
	if request.Prefix != "" {
		name = request.Prefix
	}
	below := "."
	if !info.IsDir() {
		below = path.Base(resolved)
	} else if p.device, err = deviceOf(info); err != nil {
		return err
	}
	if err := p.add(below, name, info); err != nil {
		return err
	}
	return p.tw.Close()
}

// PackAll writes everything in a directory as a tar stream, for inspection: overlayfs's whiteouts
// and attributes as they are, a file with several names several times, and sockets as pipes.
func PackAll(dir string, w io.Writer) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	info, err := root.Stat(".")
	if err != nil {
		return err
	}
	p := packer{tw: tar.NewWriter(w), root: root, strict: true, sockets: true, attributes: func(string) bool { return true }}
	if p.device, err = deviceOf(info); err != nil {
		return err
	}
	if err := p.add(".", ".", info); err != nil {
		return err
	}
	return p.tw.Close()
}

// maxPlainDepth is a little more than readers of plain streams accept, so that they notice that
// there is more. See environment.Extract.
const maxPlainDepth = 80

// maxAttribute is the most that a file system stores in one extended attribute, or in all names.
// Source: linux/limits.h.
const maxAttribute = 64 << 10

// inode identifies a file.
type inode struct{ dev, ino uint64 }

type packer struct {
	tw         *tar.Writer
	root       *os.Root
	device     uint64                 // of the path: mounts below it are left out
	links      map[inode]string       // the first names of files that have several; nil: each name has the content
	attributes func(name string) bool // the extended attributes to write; nil: none
	strict     bool                   // attributes that cannot be read are an error
	sockets    bool                   // write them as pipes
	maxDepth   int                    // of directories whose entries are written; 0: no limit
	held       heldNames
}

func deviceOf(info fs.FileInfo) (uint64, error) {
	stat, ok := info.Sys().(*unixStat)
	if !ok {
		return 0, errors.New("the file system does not report device numbers")
	}
	return stat.Dev, nil
}

// add writes the entry for below (a path in root). For a directory it also writes the entries below
// it, in the order of the names: readers choose by it which of two similar names to change. Only
// names that do not fit into memory (heldNames), of which readers refuse most, are in groups, each
// in order.
func (p *packer) add(below, name string, info fs.FileInfo) error {
	if err := p.entry(below, name, info); err != nil {
		return err
	}
	if !info.IsDir() || p.maxDepth > 0 && strings.Count(below, "/") > p.maxDepth {
		return nil
	}
	dir, err := p.root.Open(below)
	if vanished(err) {
		return nil // it was replaced or removed meanwhile
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		names, more, err := p.held.read(dir)
		if err != nil {
			return err
		}
		if !more {
			dir.Close() // a tree may be deeper than this process may have files
		}
		for _, each := range names {
			if err := p.child(path.Join(below, each), path.Join(name, each)); err != nil {
				return err
			}
		}
		p.held.drop(names)
		if !more {
			return nil
		}
	}
}

// child writes the entries for below, unless it has vanished or something is mounted there.
func (p *packer) child(below, name string) error {
	info, err := p.root.Lstat(below)
	if vanished(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if device, err := deviceOf(info); err != nil {
		return err
	} else if info.IsDir() && device != p.device {
		return nil
	}
	return p.add(below, name, info)
}

// entry writes the entry for below (a path in root).
func (p *packer) entry(below, name string, info fs.FileInfo) error {
	header, err := p.header(below, name, info)
	if err != nil || header == nil {
		return err
	}
	if header.Typeflag == tar.TypeReg {
		return p.file(below, header)
	}
	return p.tw.WriteHeader(header)
}

// vanished reports whether a file was removed or replaced while its directory was read.
func vanished(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}

// header returns the header of one entry, or nil for an entry to leave out.
func (p *packer) header(below, name string, info fs.FileInfo) (*tar.Header, error) {
	if info.Mode()&fs.ModeSocket != 0 && !p.sockets {
		return nil, nil
	}
	var target string
	if info.Mode()&fs.ModeSymlink != 0 {
		var err error
		target, err = p.root.Readlink(below)
		if vanished(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	header, err := fileHeader(info, target)
	if err != nil {
		return nil, fmt.Errorf("/%s: %w", name, err)
	}
	header.Name, header.Format = name, tar.FormatPAX
	header.Uname, header.Gname = "", ""
	if info.IsDir() {
		header.Name += "/"
	}
	if stat, ok := info.Sys().(*unixStat); ok && info.Mode().IsRegular() && stat.Nlink > 1 && p.links != nil {
		id := inode{stat.Dev, stat.Ino}
		if first, seen := p.links[id]; seen {
			header.Typeflag, header.Linkname, header.Size = tar.TypeLink, first, 0
			return header, nil
		}
		p.links[id] = name
	}
	if p.attributes != nil {
		if err := p.addAttributes(below, header); err != nil {
			return nil, err
		}
	}
	return header, nil
}

// nameless is a file without names of its owner and group. Readers drop them, and the environment's
// /etc/passwd, in which FileInfoHeader would look for them, may be a pipe without an end.
type nameless struct{ fs.FileInfo }

var _ tar.FileInfoNames = nameless{}

// Uname implements tar.FileInfoNames.
func (nameless) Uname() (string, error) { return "", nil }

// Gname implements tar.FileInfoNames.
func (nameless) Gname() (string, error) { return "", nil }

// fileHeader is tar.FileInfoHeader without names of owners, and pipes for sockets: tar has no
// sockets, and readers leave both out.
func fileHeader(info fs.FileInfo, target string) (*tar.Header, error) {
	if info.Mode()&fs.ModeSocket != 0 {
		return &tar.Header{Typeflag: tar.TypeFifo, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime()}, nil
	}
	return tar.FileInfoHeader(nameless{info}, target)
}

// file writes a file's entry. The header has the size that the file had: if the file grows, it is
// cut; if it shrinks, zeros follow.
func (p *packer) file(below string, header *tar.Header) error {
	f, err := p.root.OpenFile(below, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if vanished(err) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return nil // it was replaced by something else
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	header.Size = info.Size()
	if err := p.tw.WriteHeader(header); err != nil {
		return err
	}
	n, err := io.Copy(p.tw, io.LimitReader(f, header.Size))
	if err != nil {
		return err
	}
	_, err = io.CopyN(p.tw, zeros{}, header.Size-n)
	return err
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// addAttributes adds a file's extended attributes to its header. Errors about a file that changes
// meanwhile are ignored, unless the packer is strict.
func (p *packer) addAttributes(below string, header *tar.Header) error {
	full := path.Join(p.root.Name(), below)
	list := make([]byte, maxAttribute)
	n, err := unix.Llistxattr(full, list)
	if err != nil {
		return p.attributeError(err)
	}
	for key := range strings.SplitSeq(string(list[:n]), "\x00") {
		if key == "" || !p.attributes(key) {
			continue
		}
		value := make([]byte, maxAttribute)
		n, err := unix.Lgetxattr(full, key, value)
		if err != nil {
			if err := p.attributeError(err); err != nil {
				return err
			}
			continue
		}
		if header.PAXRecords == nil {
			header.PAXRecords = map[string]string{}
		}
		if p.strict {
			key = strings.ReplaceAll(key, "=", "-") // which names in a tar stream cannot have
		}
		header.PAXRecords["SCHILY.xattr."+key] = string(value[:n])
	}
	return nil
}

// attributeError returns err if it must end packing.
func (p *packer) attributeError(err error) error {
	if !p.strict || errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EPERM) {
		return nil
	}
	return fmt.Errorf("read the attributes of a file: %w", err)
}

// belongsToSandbox reports whether an extended attribute is the sandbox's own, and not overlayfs's
// or the machine's.
func belongsToSandbox(name string) bool {
	return !strings.HasPrefix(name, "trusted.") && !strings.HasPrefix(name, "user.overlay.") && !strings.HasPrefix(name, "security.selinux")
}
