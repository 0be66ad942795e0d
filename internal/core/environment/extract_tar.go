package environment

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

const (
	defaultMaxBytes = 1 << 30
	defaultMaxFiles = 50_000
	maxListed       = 100 // maximum length of Extracted's lists
	maxDepth        = 64  // directories within directories
	maxPath         = 2048
	maxListedPath   = 512
)

// The reasons to omit an entry.
const (
	reasonEscapes = "its path leads outside"
	reasonForeign = "not below the requested path"
	reasonDeep    = "its path is too long or too deep"
	reasonExists  = "already there"
	reasonNoDir   = "a file is where its directory should be"
	reasonLarge   = "larger than the rest of the limit"
	reasonName    = "the file system refuses its name"
	reasonOwner   = "its owner is none"
	reasonDir     = "a directory"
)

// extraction is one call of Extract.
type extraction struct {
	opts  ExtractOptions
	root  *os.Root
	names nameTable
	dirs  map[string]string // directories of the archive that exist on disk, with their path there
	seen  int               // entries of the archive, written or not
	out   Extracted

	tree    tree // what was written, by its path in the archive
	links   []Link
	linked  map[string]Link // the same by their paths
	text    int             // bytes of the links' paths and targets
	omitted int             // entries, without pipes
	noted   map[string]int  // indexes in out.Entries, by paths in the archive
	named   int             // bytes of the paths of these entries
	refused bool            // src is a directory and should be a file
}

func (x *extraction) entry(header *tar.Header, content io.Reader, strip []string) error {
	if header.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	elements, reason := split(header.Name, strip)
	isFile := header.Typeflag == tar.TypeReg || header.Typeflag == tar.TypeGNUSparse
	isDir := header.Typeflag == tar.TypeDir
	if x.opts.File && reason == "" && (len(elements) > 0 || isDir) {
		if !x.refused {
			x.omit(path.Join(strip...), reasonDir)
		}
		x.refused = true
		return nil
	}
	if len(elements) == 0 && reason == "" && isDir && ownable(header.Uid) && ownable(header.Gid) {
		x.noteEntry(header, ".", ".")
		return nil // dst itself
	}
	if len(elements) > 0 && x.opts.Skip != nil && x.opts.Skip(path.Join(elements...)) {
		return nil
	}
	if x.seen++; x.seen > x.opts.MaxFiles {
		return x.tooMany()
	}
	if reason != "" {
		x.omit(header.Name, reason)
		return nil
	}
	if (isFile || isDir) && (!ownable(header.Uid) || !ownable(header.Gid)) {
		x.omit(header.Name, reasonOwner)
		return nil
	}
	if len(elements) == 0 && isFile && len(strip) > 0 {
		elements, x.out.Single = strip[len(strip)-1:], true // a single file was asked for
	}
	switch {
	case len(elements) == 0:
		x.out.Single = true
		x.omit(header.Name, typeReason(header))
		return nil
	case isDir:
		on, err := x.directory(elements)
		if on != "" {
			x.noteEntry(header, path.Join(elements...), on)
		}
		return err
	case isFile:
		return x.file(elements, header, content)
	}
	x.omit(path.Join(elements...), typeReason(header))
	switch header.Typeflag {
	case tar.TypeSymlink, tar.TypeLink:
		x.link(path.Join(elements...), header, strip)
	case tar.TypeFifo:
		x.omitted--
	}
	return nil
}

// link records a link, to be made where the files are copied to.
func (x *extraction) link(original string, header *tar.Header, strip []string) {
	l := Link{Path: original, Kind: SymbolicLink, Target: header.Linkname, UID: header.Uid, GID: header.Gid}
	if header.Typeflag == tar.TypeLink {
		target, reason := split(header.Linkname, strip)
		if reason != "" {
			return
		}
		l.Kind, l.Target, l.UID, l.GID = HardLink, path.Join(target...), 0, 0 // those of the file
		if other, ok := x.linked[l.Target]; ok {                              // one more name of the same link or file
			l.Kind, l.Target, l.UID, l.GID = other.Kind, other.Target, other.UID, other.GID
		}
	}
	if _, taken := x.linked[original]; taken || l.problem() != "" || x.text+len(l.Path)+len(l.Target) > maxLinkText {
		return
	}
	x.text += len(l.Path) + len(l.Target)
	x.linked[original] = l
	x.links = append(x.links, l)
}

// finish selects the links that can be made: nothing else is in their place, and none is below
// another one.
func (x *extraction) finish() {
	_ = hardFirst(x.links, func(l Link) error {
		if _, err := x.tree.link(l); err == nil {
			x.out.Links = append(x.out.Links, l)
		}
		return nil
	})
	x.out.Incomplete = x.omitted > len(x.out.Links)
}

// split returns the elements of an entry's path below strip, or the reason to omit it.
func split(name string, strip []string) ([]string, string) {
	if strings.HasPrefix(name, "/") || len(name) > 2*maxPath {
		if len(name) > 2*maxPath {
			return nil, reasonDeep
		}
		return nil, reasonEscapes
	}
	var elements []string
	for element := range strings.SplitSeq(name, "/") {
		switch element {
		case "", ".":
		case "..":
			return nil, reasonEscapes
		default:
			elements = append(elements, element)
		}
	}
	if len(elements) == 0 {
		return nil, ""
	}
	if len(elements) < len(strip) || !slices.Equal(elements[:len(strip)], strip) {
		return nil, reasonForeign
	}
	elements = elements[len(strip):]
	if len(elements) > maxDepth || len(path.Join(elements...)) > maxPath {
		return nil, reasonDeep
	}
	return elements, ""
}

// directory creates the directory with this path in the archive and returns its path on disk. If
// that is impossible, it records the omission and returns "".
func (x *extraction) directory(elements []string) (string, error) {
	if len(elements) == 0 {
		return ".", nil
	}
	original := path.Join(elements...)
	if on, ok := x.dirs[original]; ok {
		return on, nil
	}
	parent, err := x.directory(elements[:len(elements)-1])
	if err != nil || parent == "" {
		return "", err
	}
	if x.out.Files >= x.opts.MaxFiles {
		return "", x.tooMany()
	}
	on := x.name(parent, original, elements[len(elements)-1])
	switch err := x.root.Mkdir(on, 0o755); {
	case err == nil:
		x.out.Files++
		x.names.listed[on] = true // the new directory is empty
	case errors.Is(err, fs.ErrExist):
		if info, err := x.root.Lstat(on); err != nil || !info.IsDir() {
			x.omit(original, reasonNoDir)
			on = ""
		}
	case refusesName(err):
		x.omit(original, reasonName)
		on = ""
	default:
		return "", fmt.Errorf("make directory: %w", err)
	}
	x.dirs[original] = on
	if on != "" {
		x.tree.add(original, plainDir)
		x.noteEntry(impliedDir, original, on) // until its own entry in the stream
	}
	return on, nil
}

func (x *extraction) file(elements []string, header *tar.Header, content io.Reader) error {
	original := path.Join(elements...)
	content, err := x.tap(original, header.Size, content)
	if err != nil {
		return err
	}
	if header.Size > x.opts.MaxBytes-x.out.Bytes {
		x.omit(original, reasonLarge)
		return fmt.Errorf("%s has %d bytes: %w", brief(original), header.Size, ErrTooLarge)
	}
	parent, err := x.directory(elements[:len(elements)-1])
	if err != nil {
		return err
	}
	if parent == "" {
		x.omit(original, reasonNoDir)
		return nil
	}
	if x.out.Files >= x.opts.MaxFiles {
		return x.tooMany()
	}
	on := x.name(parent, original, elements[len(elements)-1])
	f, err := x.root.OpenFile(on, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrExist):
		x.omit(original, reasonExists)
		return nil
	case refusesName(err):
		x.omit(original, reasonName)
		return nil
	default:
		return fmt.Errorf("make file: %w", err)
	}
	x.out.Files++
	x.tree.add(original, &tar.Header{Typeflag: tar.TypeReg})
	if x.out.Single {
		x.noteEntry(header, ".", ".")
	} else {
		x.noteEntry(header, original, on)
	}
	if header.Mode&0o111 != 0 {
		x.out.Executable = append(x.out.Executable, on)
	}
	n, err := x.write(f, content)
	x.out.Bytes += n
	if err != nil {
		return fmt.Errorf("write %s: %w", brief(original), err)
	}
	return nil
}

// tap passes the beginning of a file to Tap's writer, and returns a reader of the whole content.
func (x *extraction) tap(original string, size int64, content io.Reader) (io.Reader, error) {
	if x.opts.Tap == nil {
		return content, nil
	}
	w := x.opts.Tap(original, size)
	if w == nil {
		return content, nil
	}
	head, err := io.ReadAll(io.LimitReader(content, MaxTap))
	if err == nil {
		_, err = w.Write(head)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", brief(original), err)
	}
	return io.MultiReader(bytes.NewReader(head), content), nil
}

// existing returns the names in a directory below dst.
func (x *extraction) existing(dir string) []string {
	entries, err := fs.ReadDir(x.root.FS(), dir)
	if err != nil { // missing, or no directory: nothing can be written to it
		return nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

func (x *extraction) tooMany() error {
	return fmt.Errorf("more than %d files and directories: %w", x.opts.MaxFiles, ErrTooLarge)
}

// write copies content through the filter to f and closes f.
func (x *extraction) write(f *os.File, content io.Reader) (n int64, err error) {
	defer func() { err = errors.Join(err, f.Close()) }()
	if x.opts.Filter == nil {
		return io.Copy(f, content)
	}
	w := x.opts.Filter(f)
	defer func() { err = errors.Join(err, w.Close()) }()
	// Hide other methods of the writer, so io.Copy cannot bypass the filter.
	return io.Copy(struct{ io.Writer }{w}, content)
}

// name returns the path on disk of an archive's entry, and records it if it was renamed.
func (x *extraction) name(parent, original, element string) string {
	name, renamed := x.names.name(parent, original, element)
	if renamed && len(x.out.Renamed) < maxListed {
		x.out.Renamed = append(x.out.Renamed, Rename{From: brief(original), To: name})
	}
	return name
}

func (x *extraction) omit(name, reason string) {
	x.omitted++
	if len(x.out.Omitted) < maxListed {
		x.out.Omitted = append(x.out.Omitted, Omission{Path: brief(name), Reason: reason})
	}
}

// brief cuts a path from the environment for messages.
func brief(name string) string {
	name = strings.ToValidUTF8(name, "\uFFFD")
	if len(name) <= maxListedPath {
		return name
	}
	return strings.ToValidUTF8(name[:maxListedPath], "") + "…"
}

func typeReason(header *tar.Header) string {
	switch header.Typeflag {
	case tar.TypeSymlink:
		return "a symbolic link to " + brief(header.Linkname)
	case tar.TypeLink:
		return "a hard link to " + brief(header.Linkname)
	}
	return "a " + typeName(header.FileInfo().Mode())
}

// refusesName reports whether err is about the name only, so other files may succeed.
func refusesName(err error) bool {
	return errors.Is(err, syscall.ENAMETOOLONG) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EILSEQ)
}
