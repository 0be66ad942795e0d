//go:build linux

package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// baseMaker writes a base into dir: see hostBase.
type baseMaker struct {
	root string
	dir  string
	mode mode
}

func (b *baseMaker) make(ctx context.Context, parts []hostPart) error {
	root := filepath.Join(b.dir, rootPart)
	if err := makeDir(root, 0o755); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(emptyDirs)) {
		if err := makeDir(filepath.Join(root, name), emptyDirs[name]); err != nil {
			return err
		}
	}
	for _, step := range []func(ctx context.Context, root string) error{b.copyLinks, b.copyEtc, b.copyState, b.linkOpt} {
		if err := step(ctx, root); err != nil {
			return err
		}
	}
	for _, p := range parts {
		if err := errors.Join(makeDir(filepath.Join(root, p.At), 0o755), b.copySiblings(ctx, p.At, root)); err != nil {
			return err
		}
		if p.At == "/nix" || p.At == "/gnu" {
			continue // only their package managers install here
		}
		own := filepath.Join(b.dir, p.part())
		if err := makeDir(own, 0o755); err != nil {
			return err
		}
		if err := b.cover(ctx, p.Host, own); err != nil {
			return err
		}
	}
	return nil
}

// copySiblings copies the links and files next to a part, and next to the directories above it.
// Sandboxes do not show those directories as a whole, only some of their subdirectories.
func (b *baseMaker) copySiblings(ctx context.Context, at, root string) error {
	for dir := filepath.Dir(at); dir != "/"; dir = filepath.Dir(dir) {
		entries, _ := os.ReadDir(filepath.Join(b.root, dir))
		for _, entry := range entries {
			path := filepath.Join(dir, entry.Name())
			if entry.IsDir() || exists(filepath.Join(root, path)) {
				continue
			}
			if err := b.copyTree(ctx, path, root); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeDir creates a directory and its parents, and sets its mode independent of the umask.
func makeDir(path string, mode fs.FileMode) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// copyLinks copies the links of the root, such as /bin -> usr/bin.
func (b *baseMaker) copyLinks(_ context.Context, root string) error {
	for _, name := range shownDirs {
		target, err := os.Readlink(filepath.Join(b.root, name))
		if err != nil {
			continue
		}
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			return err
		}
	}
	return nil
}

func (b *baseMaker) copyEtc(ctx context.Context, root string) error {
	if err := b.copyTree(ctx, "etc", root); err != nil {
		return err
	}
	for _, name := range requiredFiles {
		if exists(filepath.Join(b.root, name)) && !exists(filepath.Join(root, name)) {
			return fmt.Errorf("/%s could not be copied: all users must be able to read it", name)
		}
	}
	if err := b.writeShadow(root); err != nil {
		return err
	}
	if !b.mode.usesUserNamespace() || !exists(filepath.Join(root, aptConfiguration)) {
		return nil
	}
	return errors.Join(
		os.WriteFile(filepath.Join(root, aptConfiguration, "99rollout-own"), []byte("DPkg::Pre-Install-Pkgs { \"/"+ownScript+"\"; };\n"), 0o644),
		os.WriteFile(filepath.Join(root, ownScript), []byte(ownFiles), 0o755),
		os.Chmod(filepath.Join(root, ownScript), 0o755),
	)
}

// ownFiles is run by apt with the paths of the archives that it is about to install. dpkg begins to
// replace files by linking to the old ones. In a user namespace the machine's files appear as owned
// by the user nobody, and cannot be linked to. So each of them is copied first, which makes it the
// sandbox's own.
const (
	ownScript = "etc/apt/rollout-own"
	ownFiles  = `#!/bin/sh
while read -r archive; do
  dpkg-deb --fsys-tarfile "$archive" | tar -t | while read -r name; do
    file=/${name#./}
    if [ -f "$file" ] && [ ! -L "$file" ] && [ ! -O "$file" ]; then
      cp --preserve=mode,timestamps -- "$file" "$file.rollout-own" && mv -f -- "$file.rollout-own" "$file"
    fi
  done
done
`
)

// writeShadow writes /etc/shadow and /etc/gshadow for the accounts of /etc/passwd and /etc/group,
// without passwords.
func (b *baseMaker) writeShadow(root string) error {
	for _, f := range []struct{ names, file, rest string }{
		{"etc/passwd", "etc/shadow", ":*:19000:0:99999:7:::"}, {"etc/group", "etc/gshadow", ":*::"},
	} {
		names, err := os.Open(filepath.Join(root, f.names))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		var text strings.Builder
		for scanner := bufio.NewScanner(names); scanner.Scan(); {
			if name, _, ok := strings.Cut(scanner.Text(), ":"); ok && name != "" {
				text.WriteString(name + f.rest + "\n")
			}
		}
		names.Close()
		if err := os.WriteFile(filepath.Join(root, f.file), []byte(text.String()), 0o640); err != nil {
			return err
		}
	}
	return nil
}

func (b *baseMaker) copyState(ctx context.Context, root string) error {
	for _, path := range copiedState {
		if err := b.copyTree(ctx, path, root); err != nil {
			return err
		}
	}
	for link, target := range map[string]string{"var/run": "/run", "var/lock": "/run/lock"} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			return err
		}
	}
	return nil
}

func (b *baseMaker) linkOpt(_ context.Context, root string) error {
	for _, name := range publicOptEntries(b.root) {
		if err := os.Symlink(filepath.Join(hostOpt, name), filepath.Join(root, optDir, name)); err != nil {
			return err
		}
	}
	return nil
}

// copyTree copies a file or directory of the machine to the same path below root. It leaves out
// files that not every user may read, and creates such directories empty.
func (b *baseMaker) copyTree(ctx context.Context, path, root string) error {
	return filepath.WalkDir(filepath.Join(b.root, path), func(from string, entry fs.DirEntry, err error) error {
		below, relErr := filepath.Rel(b.root, from)
		if relErr != nil || ctx.Err() != nil {
			return errors.Join(relErr, ctx.Err())
		}
		if err != nil {
			return ignoreUnreadable(err) // it does not exist, or may not be read
		}
		if slices.Contains(privatePaths, below) {
			return skip(entry)
		}
		info, err := entry.Info()
		if err != nil {
			return ignoreUnreadable(err)
		}
		to := filepath.Join(root, below)
		switch {
		case info.IsDir():
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				return err
			}
			if err := errors.Join(makeDir(to, info.Mode().Perm()|info.Mode()&fs.ModeSetgid|0o700), b.copyOwner(to, info)); err != nil {
				return err
			}
			if !worldReadable(info) {
				return fs.SkipDir
			}
			return nil
		case !worldReadable(info):
			return nil
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(from)
			if err != nil {
				return ignoreUnreadable(err)
			}
			return os.Symlink(target, to) //nolint:gosec // nobody else writes to a draft
		}
		return b.copyFile(from, to, info)
	})
}

// ignoreUnreadable returns nil for errors of files that do not exist or may not be read: a base
// omits them.
func ignoreUnreadable(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

func skip(entry fs.DirEntry) error {
	if entry.IsDir() {
		return fs.SkipDir
	}
	return nil
}

func (b *baseMaker) copyFile(from, to string, info fs.FileInfo) error {
	in, err := os.Open(from)
	if err != nil {
		return ignoreUnreadable(err)
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close(), b.copyOwner(to, info)); err != nil {
		return err
	}
	if err := os.Chmod(to, info.Mode().Perm()); err != nil {
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}

// copyOwner gives a copy the owner of the original. It does nothing in a user namespace, where that
// is not possible.
func (b *baseMaker) copyOwner(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || b.mode != modeRoot {
		return nil
	}
	return os.Lchown(path, int(stat.Uid), int(stat.Gid))
}

// hostDir is a directory of the machine, and the one that covers it.
type hostDir struct{ host, own string }

// cover fills the directory that is mounted over a part of the machine. It has whiteouts for files
// that not every user may read and, in a user namespace, copies of the directories.
func (b *baseMaker) cover(ctx context.Context, host, own string) error {
	level, made := []hostDir{{host, own}}, 0
	for len(level) > 0 {
		var next []hostDir
		for _, d := range level {
			if err := ctx.Err(); err != nil {
				return err
			}
			below, err := b.coverDir(d, maxCoverDirs-made)
			if err != nil {
				return err
			}
			made += len(below)
			next = append(next, below...)
		}
		level = next
	}
	return nil
}

// coverDir covers the entries of a directory, and returns those that are directories with entries
// to cover. In a user namespace it creates at most room directories.
func (b *baseMaker) coverDir(d hostDir, room int) (below []hostDir, err error) {
	dir, err := os.Open(d.host)
	if err != nil {
		return nil, nil // visible but unreadable: nothing can be done below
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return nil, nil
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, entry := range entries {
		if entry.Type()&fs.ModeSymlink != 0 {
			continue
		}
		enter, err := b.coverEntry(d, dir, entry, len(below) < room)
		if err != nil {
			return nil, err
		}
		if enter {
			below = append(below, hostDir{filepath.Join(d.host, entry.Name()), filepath.Join(d.own, entry.Name())})
		}
	}
	return below, nil
}

// coverEntry covers one entry of the directory d, which is open as dir. It creates a directory only
// if room is set, and reports whether the entry has to be entered. A machine has some hundred
// thousand entries, so it makes no paths of those that it only looks at.
func (b *baseMaker) coverEntry(d hostDir, dir *os.File, entry fs.DirEntry, room bool) (enter bool, err error) {
	var stat unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), entry.Name(), &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return false, ignoreUnreadable(err)
	}
	isDir := stat.Mode&unix.S_IFMT == unix.S_IFDIR
	if !everyoneReads(stat.Mode) {
		if err := b.mirror(d.host, d.own); err != nil {
			return false, ignoreUnreadable(err)
		}
		if err := unix.Mknod(filepath.Join(d.own, entry.Name()), unix.S_IFCHR, 0); err != nil { // a whiteout
			return false, fmt.Errorf("hide %s: the store's file system does not support whiteouts (%s): %w", filepath.Join(d.host, entry.Name()), diskHint(inPod()), err)
		}
		return false, nil
	}
	if !isDir || !b.mode.usesUserNamespace() || !room {
		return isDir, nil
	}
	to := filepath.Join(d.own, entry.Name())
	return true, errors.Join(os.Mkdir(to, 0o755), os.Chmod(to, fs.FileMode(stat.Mode&0o777|0o700)))
}

// mirror creates a directory, and its parents, with the modes and owners of the machine's directory
// that it covers.
func (b *baseMaker) mirror(host, own string) error {
	if _, err := os.Lstat(own); err == nil {
		return nil
	}
	if err := b.mirror(filepath.Dir(host), filepath.Dir(own)); err != nil {
		return err
	}
	info, err := os.Lstat(host)
	if err != nil {
		return err
	}
	return errors.Join(os.Mkdir(own, 0o755), b.copyOwner(own, info), os.Chmod(own, info.Mode()&(fs.ModePerm|fs.ModeSetgid|fs.ModeSticky)))
}
