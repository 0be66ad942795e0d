package dockerfile

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/moby/patternmatcher"

	"github.com/org/rollout-action/providers/sandbox/internal/machine"
	"github.com/org/rollout-action/providers/sandbox/internal/sources"
)

// fixedTime is the time of files and directories without a source. It is constant, so that layers
// are reproducible. Zip archives cannot store times before 1980.
var fixedTime = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// item is one file or directory to copy.
type item struct {
	base    string // the name
	tree    sources.Tree
	path    string // in the tree
	dir     bool   // a directory: its content is copied
	archive bool   // an archive: its entries are copied
	prefix  string // for --parents: the path, with the parent directories
	only    *patternmatcher.PatternMatcher
	drop    *patternmatcher.PatternMatcher
}

// Each calls visit for each entry to copy. A single file is ".".
func (it item) each(ctx context.Context, visit func(*tar.Header, io.Reader) error) error {
	if it.archive {
		return sources.Unpack(ctx, it.tree, it.path, visit)
	}
	return sources.Each(ctx, it.tree, it.path, func(header *tar.Header, body io.Reader) error {
		keep, err := it.keeps(header)
		if err != nil || !keep {
			return err
		}
		return visit(header, body)
	})
}

// keeps reports whether --exclude and the pattern of --parents keep an entry.
func (it item) keeps(header *tar.Header) (bool, error) {
	if header.Name == "." {
		return !it.dir || it.prefix != "" && it.only == nil, nil
	}
	if it.only != nil {
		if in, err := it.only.MatchesOrParentMatches(header.Name); err != nil || !in {
			return false, err
		}
	}
	if it.drop == nil {
		return true, nil
	}
	name := path.Join(it.prefix, header.Name) //nolint:gosec // entries() made the name safe
	if out, err := it.drop.MatchesOrParentMatches(name); err != nil || out {
		return false, err
	}
	if header.Typeflag != tar.TypeLink {
		return true, nil
	}
	if out, err := it.drop.MatchesOrParentMatches(path.Join(it.prefix, sources.Relative(header.Linkname))); err != nil || out {
		return false, errors.Join(err, fmt.Errorf("--exclude leaves out %s, which is the same file as %s: leave out both or none", sources.Relative(header.Linkname), name))
	}
	return true, nil
}

// sum adds the entries to copy to a key, except their times, which may change alone.
func (it item) sum(ctx context.Context, k key) error {
	k.text(it.prefix)
	k.flag(it.dir)
	k.flag(it.archive)
	if it.archive {
		return it.sumFile(ctx, k)
	}
	count := int64(0)
	err := it.each(ctx, func(header *tar.Header, body io.Reader) error {
		count++
		content := sha256.New()
		if _, err := io.Copy(content, body); err != nil {
			return err
		}
		k.text(header.Name, string(header.Typeflag), header.Linkname, string(content.Sum(nil)))
		k.number(header.Mode)
		k.number(int64(header.Uid))
		k.number(int64(header.Gid))
		return nil
	})
	k.number(count)
	return err
}

// sumFile adds an archive's bytes to a key.
func (it item) sumFile(ctx context.Context, k key) error {
	return sources.Each(ctx, it.tree, it.path, func(_ *tar.Header, body io.Reader) error {
		content := sha256.New()
		_, err := io.Copy(content, body)
		k.text(string(content.Sum(nil)))
		return err
	})
}

// copyInto copies items into a root file system.
func (op *copyFiles) copyInto(ctx context.Context, root machine.Root, items []item) error {
	if len(items) == 0 {
		return nil
	}
	dest, err := root.Stat(ctx, op.dest)
	if err != nil {
		return err
	}
	targets, isDir, err := op.targets(dest, items)
	if err != nil {
		return err
	}
	own, err := op.owner(ctx, root)
	if err != nil {
		return err
	}
	last := path.Dir(dest.Path)
	if isDir {
		last = dest.Path
	}
	parents, err := missingDirs(ctx, root, last)
	if err != nil {
		return err
	}
	return put(ctx, root, func(w *writer) error {
		w.own, w.change = own, op.change
		for _, dir := range parents {
			if err := w.dir(dir); err != nil {
				return err
			}
		}
		for i, it := range items {
			if err := w.item(ctx, it, targets[i]); err != nil {
				return fmt.Errorf("%s: %w", op.name, err)
			}
		}
		return nil
	})
}

// targets returns the path of each item in the root. isDir reports whether the destination becomes
// a directory if it does not exist.
func (op *copyFiles) targets(dest machine.Info, items []item) (targets []string, isDir bool, err error) {
	files := slices.ContainsFunc(items, func(it item) bool { return !it.dir && !it.archive })
	into := op.toDir || dest.Dir
	switch {
	case dest.Exists && !dest.Dir && (op.toDir || slices.ContainsFunc(items, func(it item) bool { return it.dir || it.archive })):
		return nil, false, fmt.Errorf("%s: %s is a file, not a directory", op.name, op.dest)
	case files && !into && len(items) > 1:
		return nil, false, fmt.Errorf("%s of several files needs a directory as destination: write %s/", op.name, op.dest)
	}
	for _, it := range items {
		switch {
		case it.prefix != "":
			targets = append(targets, path.Join(dest.Path, it.prefix))
		case it.dir || it.archive:
			targets, isDir = append(targets, dest.Path), true
		case into:
			targets = append(targets, path.Join(dest.Path, it.base))
		default:
			targets = append(targets, dest.Path)
		}
	}
	return targets, isDir || into, nil
}

// owner returns the owner that --chown names, or nil without --chown.
func (op *copyFiles) owner(ctx context.Context, root machine.Root) (*owner, error) {
	if op.chown == "" {
		return nil, nil
	}
	own, err := lookup(ctx, root, op.chown)
	if err != nil {
		return nil, fmt.Errorf("%s --chown=%s: %w", op.name, op.chown, err)
	}
	return &own, nil
}

// owner is a numeric user and group.
type owner struct{ uid, gid int }

// lookup resolves user[:group].
func lookup(ctx context.Context, root machine.Root, text string) (owner, error) {
	user, group, _ := strings.Cut(text, ":")
	if user == "" {
		user = "0"
	}
	uid, gid, err := root.Lookup(ctx, user, group)
	return owner{uid, gid}, err
}

// missingDirs returns the directories that must be created for dir, topmost first.
func missingDirs(ctx context.Context, root machine.Root, dir string) ([]string, error) {
	var missing []string
	for {
		at, err := root.Stat(ctx, dir)
		if err != nil {
			return nil, err
		}
		if at.Exists && !at.Dir {
			return nil, fmt.Errorf("%s is a file, not a directory", dir)
		}
		if at.Exists || at.Path == "/" {
			slices.Reverse(missing)
			return missing, nil
		}
		missing = append(missing, at.Path)
		dir = path.Dir(at.Path)
	}
}

// writer writes the archive that is put into a root file system.
type writer struct {
	archive *tar.Writer
	own     *owner
	change  modeChange
}

// put streams the archive that write writes into a root file system.
func put(ctx context.Context, root machine.Root, write func(*writer) error) error {
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		out := &writer{archive: tar.NewWriter(w)}
		err := write(out)
		if err == nil {
			err = out.archive.Close()
		}
		w.CloseWithError(err)
		written <- err
	}()
	err := root.Put(ctx, r)
	r.CloseWithError(sources.ErrStopped)
	if from := <-written; from != nil && !errors.Is(from, sources.ErrStopped) {
		return from // the cause; Put only reports that its stream ended early
	}
	return err
}

// dir writes a directory without a source. As in BuildKit, only an octal --chmod applies to it.
func (w *writer) dir(name string) error {
	change := w.change
	if !change.absolute {
		change = modeChange{}
	}
	return w.with(change).entry(&tar.Header{Typeflag: tar.TypeDir, Mode: 0o755, ModTime: fixedTime}, name)
}

// item writes an item's entries below a target.
func (w *writer) item(ctx context.Context, it item, target string) error {
	return it.each(ctx, func(header *tar.Header, body io.Reader) error {
		out := *header
		if header.Typeflag == tar.TypeLink {
			out.Linkname = sources.Relative(path.Join(target, sources.Relative(header.Linkname)))
		}
		change := w.change
		if it.archive {
			change = modeChange{} // like BuildKit: unpacked entries keep their modes
		}
		name := path.Join(target, header.Name) //nolint:gosec // entries() made the name safe
		if err := w.with(change).entry(&out, name); err != nil {
			return err
		}
		if out.Typeflag != tar.TypeReg {
			return nil
		}
		_, err := io.Copy(w.archive, body)
		return err
	})
}

func (w *writer) with(change modeChange) *writer {
	return &writer{archive: w.archive, own: w.own, change: change}
}

// entry writes a header for a path in the root.
func (w *writer) entry(header *tar.Header, name string) error {
	switch header.Typeflag {
	case tar.TypeGNUSparse, tar.TypeCont:
		header.Typeflag = tar.TypeReg
	case tar.TypeSymlink, tar.TypeLink:
	default:
		header.Mode = w.change.to(header.Mode, header.Typeflag == tar.TypeDir)
	}
	if w.own != nil {
		header.Uid, header.Gid = w.own.uid, w.own.gid
	}
	attributes := maps.Clone(header.PAXRecords)
	maps.DeleteFunc(attributes, func(key, _ string) bool { return !strings.HasPrefix(key, "SCHILY.xattr.") })
	*header = tar.Header{
		Typeflag: header.Typeflag, Name: sources.Relative(name), Linkname: header.Linkname, Size: header.Size, Mode: header.Mode,
		Uid: header.Uid, Gid: header.Gid, ModTime: header.ModTime, Devmajor: header.Devmajor, Devminor: header.Devminor,
		PAXRecords: attributes, Format: tar.FormatPAX,
	}
	if err := w.archive.WriteHeader(header); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
