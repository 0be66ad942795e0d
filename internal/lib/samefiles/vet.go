package samefiles

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// The modes of entries in a tree. Source: git's Documentation/git-fast-import.txt.
const (
	ModeFile      = "100644"
	ModeProgram   = "100755"
	ModeLink      = "120000"
	ModeDirectory = "040000"
	ModeSubmodule = "160000"
)

// Entry is one entry of a tree.
type Entry struct {
	Path string // below the tree, with forward slashes
	Mode string
	ID   string // of the blob or tree
}

// Trees lists the trees of a repository. It has to be trustworthy.
type Trees interface {
	// Tree returns the entries of a tree and, if deep, those of all trees below. whole is false if
	// there are more than it returns.
	Tree(ctx context.Context, id string, deep bool) (entries []Entry, whole bool, err error)
}

// Refusal is the error of a file or directory that differs from the commit's.
type Refusal struct {
	Path string // below the checkout, with forward slashes; as it was given if it is elsewhere
	Why  string // follows the path
	Hint string // the remedy; may be ""
}

func (r *Refusal) Error() string {
	text := r.Path + " " + r.Why
	if r.Hint != "" {
		text += " (" + r.Hint + ")"
	}
	return text
}

// Checker copies files of one checkout that equal the commit's. It is not safe for concurrent use.
type Checker struct {
	trees  Trees
	rootID string
	top    string   // of the checkout, absolute
	from   *os.Root // there
	into   string   // of the copy, absolute
	to     *os.Root // there
	listed map[string][]Entry
	done   map[string]bool
	depth  int
}

// New returns a Checker that compares files below top with the tree rootID, and copies them to the
// same paths below into, an empty directory that other users cannot write to.
func New(trees Trees, rootID, top, into string) (*Checker, error) {
	from, err := os.OpenRoot(top)
	if err != nil {
		return nil, err
	}
	to, err := os.OpenRoot(into)
	if err != nil {
		from.Close()
		return nil, err
	}
	return &Checker{trees: trees, rootID: rootID, top: top, from: from, into: into, to: to, listed: map[string][]Entry{}, done: map[string]bool{}}, nil
}

// Close closes the Checker's directories. The copy stays.
func (c *Checker) Close() error { return errors.Join(c.from.Close(), c.to.Close()) }

// Admit checks a file, or a directory and everything below it, and copies it. It returns the copy's
// path. A path that is neither in the commit nor on disk is no error and is not copied. The error
// is a *Refusal if a path is in only one of them, or differs. Exactly the checked content is
// copied. The .gitattributes of the directories on the way are copied, too: without them, it is not
// known whether a file is git-lfs content or only its pointer.
func (c *Checker) Admit(ctx context.Context, name string) (string, error) {
	below, err := filepath.Rel(c.top, name)
	if err != nil || !filepath.IsLocal(below) {
		below, err = filepath.Rel(c.into, name) // a path in the copy
	}
	if err != nil || !filepath.IsLocal(below) {
		return "", &Refusal{Path: name, Why: "lies outside of the checkout"}
	}
	c.depth = 0
	if err := c.admit(ctx, filepath.ToSlash(below)); err != nil {
		return "", err
	}
	return filepath.Join(c.into, below), nil
}

// maxLinks is the maximum number of links that one path may follow.
const maxLinks = 40

// admit walks from the top to a path and copies the file or directory there. All directories on the
// way must be directories on disk, too.
func (c *Checker) admit(ctx context.Context, name string) error {
	if c.depth++; c.depth > maxLinks {
		return &Refusal{Path: name, Why: "leads through too many links"}
	}
	defer func() { c.depth-- }()
	at := Entry{Path: ".", Mode: ModeDirectory, ID: c.rootID}
	if name != "." {
		for rest := name; rest != ""; {
			if err := c.attributes(ctx, at); err != nil {
				return err
			}
			var part string
			part, rest, _ = strings.Cut(rest, "/")
			next, known, err := c.child(ctx, at, part)
			if err != nil {
				return err
			}
			if !known {
				return c.unknown(path.Join(at.Path, part))
			}
			if rest == "" {
				at = next
				break
			}
			switch next.Mode {
			case ModeDirectory:
				if err := c.directory(next.Path); err != nil {
					return err
				}
			case ModeLink:
				target, err := c.link(next)
				if err != nil {
					return err
				}
				return c.admit(ctx, path.Join(target, rest))
			default:
				return c.unknown(path.Join(next.Path, rest))
			}
			at = next
		}
	}
	return c.take(ctx, at)
}

// attributes copies the .gitattributes of a directory, if the commit has one. One that exists only
// in the checkout does not apply to the copy.
func (c *Checker) attributes(ctx context.Context, dir Entry) error {
	e, known, err := c.child(ctx, dir, ".gitattributes")
	if err != nil || !known || e.Mode != ModeFile && e.Mode != ModeProgram { // git follows no link here
		return err
	}
	return c.take(ctx, e)
}

// child returns the entry of a name in a tree.
func (c *Checker) child(ctx context.Context, tree Entry, name string) (Entry, bool, error) {
	entries, err := c.list(ctx, tree.ID)
	if err != nil {
		return Entry{}, false, err
	}
	for _, e := range entries {
		if e.Path == name {
			e.Path = path.Join(tree.Path, name)
			return e, true, nil
		}
	}
	return Entry{}, false, nil
}

// list returns the entries of one tree.
func (c *Checker) list(ctx context.Context, id string) ([]Entry, error) {
	if entries, ok := c.listed[id]; ok {
		return entries, nil
	}
	entries, whole, err := c.trees.Tree(ctx, id, false)
	if err != nil {
		return nil, err
	}
	if !whole {
		return nil, fmt.Errorf("tree %s has too many entries", id)
	}
	c.listed[id] = entries
	return entries, nil
}

// listDeep loads the entries of a tree and of all trees below it with few requests.
func (c *Checker) listDeep(ctx context.Context, id string) error {
	entries, whole, err := c.trees.Tree(ctx, id, true)
	if err != nil || !whole {
		return err // list loads them one by one
	}
	ids := map[string]string{".": id}
	for _, e := range entries {
		if e.Mode == ModeDirectory {
			ids[e.Path] = e.ID
		}
	}
	lists := map[string][]Entry{}
	for _, dir := range ids {
		lists[dir] = nil
	}
	seen := map[string]bool{} // two directories may be the same tree
	for _, e := range entries {
		parent, known := ids[path.Dir(e.Path)]
		e.Path = path.Base(e.Path)
		if key := parent + "/" + e.Path; known && !seen[key] {
			seen[key] = true
			lists[parent] = append(lists[parent], e)
		}
	}
	for dir, list := range lists {
		c.listed[dir] = list
	}
	return nil
}

// unknown returns a Refusal if a path that the commit does not have is on disk.
func (c *Checker) unknown(name string) error {
	switch _, err := c.from.Lstat(name); {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil
	case err != nil:
		return &Refusal{Path: name, Why: "cannot be read: " + reason(err)}
	}
	return &Refusal{Path: name, Why: "is not in that commit"}
}

// take copies an entry, and everything below it.
func (c *Checker) take(ctx context.Context, e Entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.done[e.Path] {
		return nil
	}
	c.done[e.Path] = true
	switch e.Mode {
	case ModeDirectory:
		if err := c.directory(e.Path); err != nil {
			return err
		}
		if err := c.listDeep(ctx, e.ID); err != nil {
			return err
		}
		return c.takeAll(ctx, e)
	case ModeLink:
		target, err := c.link(e)
		if err != nil {
			return err
		}
		return c.admit(ctx, target)
	case ModeFile, ModeProgram:
		return c.file(e)
	case ModeSubmodule:
		return &Refusal{Path: e.Path, Why: "is a submodule, whose files are another repository's"}
	}
	return &Refusal{Path: e.Path, Why: "is of an unknown kind: " + e.Mode}
}

// takeAll copies the contents of a directory, and refuses files that the commit does not have.
func (c *Checker) takeAll(ctx context.Context, dir Entry) error {
	entries, err := c.list(ctx, dir.ID)
	if err != nil {
		return err
	}
	names := make(map[string]bool, len(entries))
	for _, e := range entries {
		names[e.Path] = true
	}
	found, err := c.readDir(dir.Path)
	if err != nil {
		return &Refusal{Path: dir.Path, Why: "cannot be read: " + reason(err)}
	}
	for _, entry := range found {
		name := path.Join(dir.Path, entry.Name())
		if names[entry.Name()] || name == ".git" || entry.IsDir() && c.empty(name, 0) { // git knows no empty directories
			continue
		}
		return &Refusal{Path: name, Why: "is not in that commit"}
	}
	for _, e := range entries {
		e.Path = path.Join(dir.Path, e.Path)
		if e.Mode == ModeDirectory {
			if err := c.under(ctx, e); err != nil {
				return err
			}
			continue
		}
		if err := c.take(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// under copies a subdirectory whose parent was listed with listDeep.
func (c *Checker) under(ctx context.Context, dir Entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.done[dir.Path] {
		return nil
	}
	c.done[dir.Path] = true
	if err := c.directory(dir.Path); err != nil {
		return err
	}
	return c.takeAll(ctx, dir)
}

func (c *Checker) readDir(name string) ([]fs.DirEntry, error) {
	dir, err := c.from.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	found, err := dir.ReadDir(-1)
	slices.SortFunc(found, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return found, err
}

// empty reports whether there are no files below a directory.
func (c *Checker) empty(name string, depth int) bool {
	found, err := c.readDir(name)
	if err != nil || depth > 20 {
		return false
	}
	for _, entry := range found {
		if !entry.IsDir() || !c.empty(path.Join(name, entry.Name()), depth+1) {
			return false
		}
	}
	return true
}

// directory creates a directory in the copy. It must be a directory in the checkout, too.
func (c *Checker) directory(name string) error {
	info, err := c.from.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &Refusal{Path: name, Why: "is missing here"}
	case err != nil:
		return &Refusal{Path: name, Why: "cannot be read: " + reason(err)}
	case !info.IsDir():
		return &Refusal{Path: name, Why: "is a directory in that commit, and something else here"}
	}
	if err := c.to.MkdirAll(name, 0o755); err != nil {
		return fmt.Errorf("copy %s: %w", name, err)
	}
	return nil
}

// link copies a link that leads to a place in the checkout, and returns that place.
func (c *Checker) link(e Entry) (string, error) {
	text, err := c.from.Readlink(e.Path)
	if err != nil {
		return "", &Refusal{Path: e.Path, Why: "is a link in that commit, and not here"}
	}
	if idOf(e.ID, []byte(text)) != e.ID {
		return "", &Refusal{Path: e.Path, Why: "leads elsewhere than in that commit"}
	}
	target := path.Join(path.Dir(e.Path), text)
	if path.IsAbs(text) || !fs.ValidPath(target) {
		return "", &Refusal{Path: e.Path, Why: "is a link that leads out of the checkout"}
	}
	err = c.to.MkdirAll(path.Dir(e.Path), 0o755)
	if err == nil {
		err = c.to.Symlink(text, e.Path)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("copy %s: %w", e.Path, err)
	}
	return target, nil
}

// reason returns the text of an error without its path.
func reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return err.Error()
}
