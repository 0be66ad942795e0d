package environment

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// maxEntryText bounds the paths of all entries of an Extracted, in bytes.
const maxEntryText = 32 << 20

// Entry holds the attributes of a file or directory in an environment that Extract does not give to
// the file that it writes.
type Entry struct {
	Path string `json:"path"`           // in the environment, relative to the copied path; "." is that path
	File string `json:"file,omitempty"` // on disk, relative to the destination, if that differs
	Dir  bool   `json:"dir,omitempty"`
	// Mode has the permission bits, and the setgid and sticky bits of directories. Those of files
	// are dropped, and setuid bits, so that a copied file gives no user another user's rights.
	Mode     Permissions `json:"mode"`
	UID      int         `json:"uid,omitempty"`
	GID      int         `json:"gid,omitempty"`
	Modified int64       `json:"modified,omitempty"` // in seconds of Unix time
}

// Permissions are the bits that chmod takes, in octal as text.
type Permissions uint16

// MarshalText implements encoding.TextMarshaler.
func (p Permissions) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%04o", uint16(p)), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Permissions) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 8, 12)
	*p = Permissions(n)
	return err
}

// The bits of chmod.
const (
	setgidBit      = 0o2000
	stickyBit      = 0o1000
	permissionBits = 0o777
)

// OnDisk returns the path of the entry on disk, relative to the destination.
func (e Entry) OnDisk() string {
	if e.File != "" {
		return e.File
	}
	return e.Path
}

// entryOf returns the entry of a file or directory of a tar stream.
func entryOf(header *tar.Header, original, on string) Entry {
	e := Entry{Path: original, UID: header.Uid, GID: header.Gid, Dir: header.Typeflag == tar.TypeDir, Mode: Permissions(header.Mode & permissionBits)}
	if e.Dir {
		e.Mode = Permissions(header.Mode & (permissionBits | setgidBit | stickyBit))
	}
	if on != original {
		e.File = on
	}
	if seconds := header.ModTime.Unix(); seconds > 0 {
		e.Modified = seconds
	}
	return e
}

// header returns the entry's header in a tar stream.
func (e Entry) header(name string) *tar.Header {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(e.Mode), Uid: e.UID, Gid: e.GID, ModTime: time.Unix(e.Modified, 0)}
	if e.Dir {
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
	}
	return h
}

// ownable reports whether files can have an owner or group with this number. The last one means
// none. Source: chown(2).
func ownable(id int) bool { return id >= 0 && int64(id) < math.MaxUint32 }

// problem returns the reason why an entry is invalid, or "".
func (e Entry) problem() string {
	top := e.Path == "." && e.File == ""
	switch {
	case !top && (!plainPath(e.Path) || e.File != "" && !plainPath(e.File)):
		return "its path is not one below the directory"
	case !ownable(e.UID) || !ownable(e.GID):
		return "its owner is none"
	case !e.Dir && e.Mode > permissionBits || e.Mode > permissionBits|setgidBit|stickyBit:
		return "its mode is none"
	}
	return ""
}

// CheckEntries returns an error unless all entries are valid and have different paths below their
// directory.
func CheckEntries(entries []Entry) error {
	paths, files := map[string]bool{}, map[string]bool{}
	for _, e := range entries {
		why := e.problem()
		if paths[e.Path] || files[e.OnDisk()] {
			why = "there is another one"
		}
		if why != "" {
			return fmt.Errorf("the entry %s: %s", brief(e.Path), why)
		}
		paths[e.Path], files[e.OnDisk()] = true, true
	}
	return nil
}

// noteEntry records the entry of a file or directory that was written to disk.
func (x *extraction) noteEntry(header *tar.Header, original, on string) {
	e := entryOf(header, original, on)
	if at, ok := x.noted[original]; ok { // a directory, which streams may have twice
		x.out.Entries[at] = e
		return
	}
	if x.named += len(e.Path) + len(e.File); x.named > maxEntryText || !utf8.ValidString(original) {
		x.omitted++
		return
	}
	x.noted[original] = len(x.out.Entries)
	x.out.Entries = append(x.out.Entries, e)
}

// errChanged is the error for files that do not match their entries.
var errChanged = errors.New("it was changed since it was copied out of its environment")

// entrySet holds the entries of a copy by their paths on disk.
type entrySet struct {
	list []Entry
	left map[string]int // indexes of those that are not in the stream yet
}

func newEntrySet(entries []Entry) (*entrySet, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	if err := CheckEntries(entries); err != nil {
		return nil, err
	}
	s := &entrySet{entries, map[string]int{}}
	for i, e := range entries {
		s.left[e.OnDisk()] = i
	}
	return s, nil
}

// take returns the entry of a file or directory on disk. A nil set has none.
func (s *entrySet) take(name string, dir bool) (*Entry, error) {
	if s == nil {
		return nil, nil
	}
	i, ok := s.left[name]
	switch {
	case !ok && name == ".":
		return nil, nil
	case !ok || s.list[i].Dir != dir:
		return nil, fmt.Errorf("%s: %w", brief(name), errChanged)
	}
	delete(s.left, name)
	return &s.list[i], nil
}

// rest writes the directories that are not on disk: tools that carry files to another machine may
// drop empty ones.
func (p *packer) rest() error {
	if p.entriesOf == nil {
		return nil
	}
	for _, e := range p.entriesOf.list {
		if _, left := p.entriesOf.left[e.OnDisk()]; !left {
			continue
		}
		if !e.Dir {
			return fmt.Errorf("%s: %w", brief(e.Path), errChanged)
		}
		h := e.header(path.Join(p.dst, e.Path))
		if err := p.header(h, h.ModTime); err != nil {
			return err
		}
	}
	return nil
}

// headerOf returns the header of a file or directory on disk with the given information.
func (p *packer) headerOf(name string, info fs.FileInfo) (*tar.Header, time.Time, error) {
	e, err := p.entriesOf.take(name, info.IsDir())
	if err != nil {
		return nil, time.Time{}, err
	}
	if e != nil {
		h := e.header(path.Join(p.dst, e.Path))
		return h, h.ModTime, nil
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: path.Join(p.dst, name), Mode: int64(info.Mode().Perm())}
	if info.IsDir() {
		h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
	}
	return h, info.ModTime(), nil
}

// EntriesBelow returns the entries at a path or below it, relative to that path and to its place on
// disk, and that place. There is none if nothing was copied from that path.
func EntriesBelow(entries []Entry, name string) (below []Entry, on string) {
	for _, e := range entries {
		if e.Path == name {
			on = e.OnDisk()
		}
	}
	if on == "" {
		return nil, ""
	}
	for _, e := range entries {
		inner, ok := strings.CutPrefix(e.Path+"/", name+"/")
		file, same := strings.CutPrefix(e.OnDisk()+"/", on+"/")
		if !ok || !same {
			continue
		}
		e.Path, e.File = path.Clean(inner), path.Clean(file)
		if e.File == e.Path {
			e.File = ""
		}
		below = append(below, e)
	}
	return below, on
}
