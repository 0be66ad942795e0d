package environment

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// Pack writes files to w as one tar stream to be unpacked at the root of an environment: names are
// the destinations without their leading slash; everything belongs to user and group 0 and keeps
// its permission bits, unless an entry of the copy says otherwise.
//
// Directories are in the stream only if necessary: the destination itself if Mode or Clean requires
// it or no entry below it creates it; those below it if they are empty or their mode is not 0755.
// The unpacker creates missing directories (0755), and follows symbolic links to existing ones.
//
// Clean is expressed in the stream: an empty regular file with the destination's name, followed by
// the directory. An unpacker that replaces entries of another type without following links (as tar
// and container engines do) thereby removes what was there.
//
// Links are at the end of the stream, hard ones first: an unpacker follows none of them when it
// writes the other entries.
//
// Pack fails, after writing a part of the stream, if a source contains anything but files and
// directories or changes while it is read, or if a link is in the place of something else.
func Pack(w io.Writer, files ...Copy) error {
	p := packer{tw: tar.NewWriter(w)}
	linked := slices.ContainsFunc(files, func(c Copy) bool { return len(c.Links) > 0 })
	if linked {
		p.packed = tree{}
	}
	for _, c := range files {
		if err := p.pack(c); err != nil {
			return err
		}
	}
	if linked {
		if err := p.links(files); err != nil {
			return err
		}
	}
	return p.tw.Close()
}

// errNotPlain is the reason to refuse links, devices and the like.
var errNotPlain = errors.New("only files and directories can be copied into an environment")

func (p *packer) pack(c Copy) error {
	if !path.IsAbs(c.Dst) {
		return fmt.Errorf("the destination %q is not an absolute path", c.Dst)
	}
	var err error
	if p.entriesOf, err = newEntrySet(c.Entries); err != nil {
		return err
	}
	p.src, p.dst, p.all = c.Src, strings.TrimPrefix(path.Clean(c.Dst), "/"), c.Clean || p.entriesOf != nil
	if p.dst == "" && (c.Clean || c.Mode != 0) {
		return errors.New("the root of an environment can be neither cleaned nor given a mode")
	}
	mode := int64(c.Mode.Perm())
	if mode == 0 {
		mode = 0o755
	}
	if c.Mode&fs.ModeSticky != 0 {
		mode |= 0o1000
	}
	if c.Clean {
		if err := p.header(&tar.Header{Typeflag: tar.TypeReg, Name: p.dst, Mode: 0o600}, time.Time{}); err != nil {
			return err
		}
	}
	entries, err := fs.ReadDir(c.Src, ".")
	if err != nil {
		return fmt.Errorf("read the files to copy to %s: %w", c.Dst, err)
	}
	switch own, err := p.entriesOf.take(".", true); {
	case err != nil:
		return err
	case own != nil && p.dst != "":
		h := own.header(p.dst)
		if err := p.header(h, h.ModTime); err != nil {
			return err
		}
	case c.Clean || c.Mode != 0 || len(entries) == 0 && p.dst != "":
		if err := p.header(&tar.Header{Typeflag: tar.TypeDir, Name: p.dst + "/", Mode: mode}, time.Time{}); err != nil {
			return err
		}
	}
	if err := p.entries(".", entries); err != nil {
		return err
	}
	return p.rest()
}

// packer packs one Copy after the other.
type packer struct {
	tw     *tar.Writer
	packed tree // entries of the stream; nil if there are no links

	src fs.FS
	dst string
	all bool // every directory is in the stream

	entriesOf *entrySet // nil: the files are as they are on disk
}

func (p *packer) entries(dir string, entries []fs.DirEntry) error {
	for _, entry := range entries {
		name := path.Join(dir, entry.Name())
		var err error
		switch {
		case entry.IsDir():
			err = p.directory(name, entry)
		case entry.Type().IsRegular():
			err = p.file(name)
		default:
			err = fmt.Errorf("%s: %w (this is a %s)", name, errNotPlain, typeName(entry.Type()))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *packer) directory(name string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	entries, err := fs.ReadDir(p.src, name)
	if err != nil {
		return err
	}
	// An entry for a directory would replace a link of the same name in the environment (such as
	// /bin), so the unpacker creates the usual directories.
	if p.all || len(entries) == 0 || info.Mode().Perm() != 0o755 {
		header, modified, err := p.headerOf(name, info)
		if err != nil {
			return err
		}
		if err := p.header(header, modified); err != nil {
			return err
		}
	}
	return p.entries(name, entries)
}

func (p *packer) file(name string) error {
	f, err := p.src.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: %w", name, errNotPlain)
	}
	header, modified, err := p.headerOf(name, info)
	if err != nil {
		return err
	}
	header.Size = info.Size()
	if err := p.header(header, modified); err != nil {
		return err
	}
	n, err := io.Copy(p.tw, io.LimitReader(f, info.Size()))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if n < info.Size() {
		return fmt.Errorf("%s: became shorter while it was read: %w", name, io.ErrUnexpectedEOF)
	}
	return nil
}

// header writes h with the time modified or, if that is unknown, now.
func (p *packer) header(h *tar.Header, modified time.Time) error {
	if modified.Unix() <= 0 {
		modified = time.Now()
	}
	h.ModTime = modified
	if p.packed != nil {
		p.packed.add(strings.TrimSuffix(h.Name, "/"), h)
	}
	return p.tw.WriteHeader(h)
}

// typeName returns a description of a file's type.
func typeName(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSymlink != 0:
		return "symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "named pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}
