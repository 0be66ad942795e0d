package environment

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"
)

// LinkKind is the kind of a link.
type LinkKind string

// The kinds of links.
const (
	SymbolicLink LinkKind = "symbolic"
	HardLink     LinkKind = "hard"
)

const (
	maxTarget   = 4096     // of a link, in bytes; source: PATH_MAX in linux/limits.h
	maxLinkText = 16 << 20 // of the paths and targets of all links of an Extracted, in bytes
)

// Link is a link below a directory.
type Link struct {
	Path string   `json:"path"` // relative to the directory
	Kind LinkKind `json:"kind"`
	// Target of a symbolic link is its text, which may lead anywhere; that of a hard link is the
	// path of a file, relative to the directory.
	Target string `json:"target"`
	// UID and GID are the owner of a symbolic link.
	UID int `json:"uid,omitempty"`
	GID int `json:"gid,omitempty"`
}

// problem returns the reason why a link is invalid, or "".
func (l Link) problem() string {
	switch {
	case !plainPath(l.Path):
		return "its path is not one below the directory"
	case l.Target == "" || len(l.Target) > maxTarget || strings.Contains(l.Target, "\x00") || !utf8.ValidString(l.Target):
		return "its target is no path"
	case l.Kind == HardLink && !plainPath(l.Target):
		return "its target is not below the directory"
	case !ownable(l.UID) || !ownable(l.GID):
		return reasonOwner
	case l.Kind != HardLink && l.Kind != SymbolicLink:
		return fmt.Sprintf("its kind %q is unknown", l.Kind)
	}
	return ""
}

// plainPath reports whether a path leads below a directory, whatever is there.
func plainPath(name string) bool {
	return fs.ValidPath(name) && name != "." && len(name) <= maxPath && !strings.Contains(name, "\x00")
}

// CheckLinks returns an error unless all links have a path below their directory, and hard ones a
// target there.
func CheckLinks(links []Link) error {
	for _, l := range links {
		if why := l.problem(); why != "" {
			return fmt.Errorf("the link %s: %s", brief(l.Path), why)
		}
	}
	return nil
}

// tree holds the entries that are made in a directory, by path.
type tree map[string]*tar.Header

var (
	plainDir   = &tar.Header{Typeflag: tar.TypeDir}
	impliedDir = &tar.Header{Typeflag: tar.TypeDir, Mode: 0o755}
)

// add adds an entry and the directories above it.
func (t tree) add(name string, h *tar.Header) {
	for t[name] = h; path.Dir(name) != "." && path.Dir(name) != "/"; t[name] = plainDir {
		if name = path.Dir(name); t[name] != nil {
			return
		}
	}
}

// link adds a link and returns its entry. It fails if something is in its place or if the parent is
// not a directory.
func (t tree) link(l Link) (*tar.Header, error) {
	if t[l.Path] != nil {
		return nil, errors.New("something else is in its place")
	}
	for dir := path.Dir(l.Path); dir != "."; dir = path.Dir(dir) {
		if h := t[dir]; h != nil && h.Typeflag != tar.TypeDir {
			return nil, errors.New("its directory is none")
		}
	}
	h := &tar.Header{Typeflag: tar.TypeSymlink, Name: l.Path, Linkname: l.Target, Mode: 0o777, Uid: l.UID, Gid: l.GID}
	if l.Kind == HardLink {
		target := t[l.Target]
		if target == nil || target.Typeflag != tar.TypeReg {
			return nil, errors.New("there is no file to which it leads")
		}
		// Engines set owner, mode and time of the file again.
		h.Typeflag, h.Mode, h.ModTime, h.Uid, h.Gid = tar.TypeLink, target.Mode, target.ModTime, target.Uid, target.Gid
	}
	t.add(l.Path, h)
	return h, nil
}

// hardFirst calls do with all links, hard ones first: when they are made, there is no symbolic link
// to follow.
func hardFirst(links []Link, do func(Link) error) error {
	for _, kind := range []LinkKind{HardLink, SymbolicLink} {
		for _, l := range links {
			if l.Kind != kind {
				continue
			}
			if err := do(l); err != nil {
				return err
			}
		}
	}
	return nil
}

// links writes the links of files to the stream, which has everything else.
func (p *packer) links(files []Copy) error {
	var all []Link // relative to the root of the environment
	for _, c := range files {
		if err := CheckLinks(c.Links); err != nil {
			return err
		}
		dst := strings.TrimPrefix(path.Clean(c.Dst), "/")
		for _, l := range c.Links {
			if l.Path = path.Join(dst, l.Path); l.Kind == HardLink {
				l.Target = path.Join(dst, l.Target)
			}
			all = append(all, l)
		}
	}
	return hardFirst(all, func(l Link) error {
		h, err := p.packed.link(l)
		if err != nil {
			return fmt.Errorf("the link /%s: %w", brief(l.Path), err)
		}
		return p.header(h, h.ModTime)
	})
}
