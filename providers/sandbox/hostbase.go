//go:build linux

package sandbox

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
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

// hostBase is this machine's root as the lowest layer of sandboxes. Programs (/usr and the like) are shown as they
// are; configuration and the package manager's state are copied once; all else of a root file system is new and
// empty. Whatever is not named here is not shown: home directories, data, other people's work.
//
// In a user namespace the machine's folders belong to nobody, and nothing could be made in them. There
// the base has its own copy of the folders (not of the files) of each part, which then lies between.
type hostBase struct {
	Key   string     `json:"key"`
	OS    string     `json:"os"` // for people
	Parts []hostPart `json:"parts"`

	made bool
}

// hostPart is a folder of the machine that is shown.
type hostPart struct {
	At   string `json:"at"`   // in the sandbox
	Host string `json:"host"` // on the machine
}

// part is the one that is mounted at a path.
func (b *hostBase) part(at string) (hostPart, bool) {
	i := slices.IndexFunc(b.Parts, func(p hostPart) bool { return p.At == at })
	if i < 0 {
		return hostPart{}, false
	}
	return b.Parts[i], true
}

// rootPart is the part of layers for everything that no other part has.
const rootPart = "root"

// part is the name of a part's folder in layers.
func (p hostPart) part() string { return strings.ReplaceAll(p.At, "/", "+") }

// hostVersion changes when bases are made in another way.
const hostVersion = "3"

var (
	// shown are the folders of the machine's root that are shown, if they are there.
	shown = []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "nix", "gnu"}
	// optional is shown by links to its folders: it can be removed, as in an image.
	optional = "opt"
	// hostOpt is where optional really is.
	hostOpt = "/.host/opt"
	// empty are the folders that every root has, with their modes.
	empty = map[string]fs.FileMode{
		"boot": 0o755, "home": 0o755, "media": 0o755, "mnt": 0o755, "opt": 0o755, "root": 0o700, "run": 0o755, "run/lock": 0o777 | fs.ModeSticky,
		"srv": 0o755, "tmp": 0o777 | fs.ModeSticky, "var": 0o755, "var/backups": 0o755, "var/cache": 0o755, "var/lib": 0o755, "var/local": 0o775,
		"var/log": 0o755, "var/mail": 0o775, "var/opt": 0o755, "var/spool": 0o755, "var/tmp": 0o777 | fs.ModeSticky,
		"var/cache/apt": 0o755, "var/cache/apt/archives": 0o755, "var/cache/apt/archives/partial": 0o700, "var/log/apt": 0o755,
		"var/lib/apt": 0o755, "var/lib/apt/lists": 0o755, "var/lib/apt/lists/partial": 0o700,
	}
	// copied is the state of package managers and of what packages register with.
	copied = []string{
		"var/lib/dpkg", "var/lib/rpm", "var/lib/dnf", "var/lib/pacman", "var/lib/pam", "var/lib/ucf", "var/lib/python", "var/lib/systemd/deb-systemd-helper-enabled",
		"var/lib/alternatives", "var/lib/dictionaries-common", "var/lib/aspell", "var/lib/sgml-base", "var/lib/xml-core", "var/lib/emacsen-common",
		"var/lib/shells.state", "var/lib/apt/extended_states", "var/cache/debconf", "var/cache/ldconfig",
	}
	// private of /etc is state of services that agents have nothing to do with, readable or not.
	private = []string{"etc/machine-id", "etc/docker", "etc/containerd", "etc/kubernetes", "etc/hostname", "etc/hosts", "etc/resolv.conf", "etc/mtab"}
)

// essential are the files without which a base would be worse than none.
var essential = []string{"etc/passwd", "etc/group"}

// maxSkeleton bounds the folders that are made anew in a user namespace. The deepest are left out.
const maxSkeleton = 60_000

// hostParts finds out what is shown. Folders with mounts in them are shown by their own folders, for overlays show
// no mounts, and in a user namespace the kernel refuses them. So are folders with the store in them.
func hostParts(root string, mounts []string, storeDir string) []hostPart {
	var parts []hostPart
	var add func(at string)
	add = func(at string) {
		if within(at, storeDir) {
			return
		}
		inside := func(p string) bool { return p != at && within(p, at) }
		if !slices.ContainsFunc(mounts, inside) && !within(storeDir, at) {
			parts = append(parts, hostPart{At: at, Host: filepath.Join(root, at)})
			return
		}
		entries, err := os.ReadDir(filepath.Join(root, at))
		if err != nil {
			return
		}
		for _, entry := range entries {
			if info, err := entry.Info(); err == nil && info.IsDir() && public(info) {
				add(at + "/" + entry.Name())
			}
		}
	}
	for _, name := range shown {
		if info, err := os.Lstat(filepath.Join(root, name)); err == nil && info.IsDir() {
			add("/" + name)
		}
	}
	below := func(p string) bool { return p != "/opt" && within(p, "/opt") }
	if len(optionals(root)) > 0 && !slices.ContainsFunc(mounts, below) && !within(storeDir, "/opt") {
		parts = append(parts, hostPart{At: hostOpt, Host: filepath.Join(root, optional)})
	}
	return parts
}

// optionals are the entries of /opt that everybody may read.
func optionals(root string) []string {
	entries, err := os.ReadDir(filepath.Join(root, optional))
	if err != nil {
		return nil
	}
	var names []string
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && public(info) && (info.IsDir() || info.Mode().IsRegular()) {
			names = append(names, entry.Name())
		}
	}
	return names
}

// within reports whether the absolute path p is dir or lies below it.
func within(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}

// public tells what an ordinary user of the machine may read: nothing else of the machine's is shown to agents.
func public(info fs.FileInfo) bool {
	switch {
	case info.IsDir():
		return info.Mode()&0o005 == 0o005
	case info.Mode().IsRegular():
		return info.Mode()&0o004 != 0
	}
	return info.Mode()&fs.ModeSymlink != 0
}

// hostKey identifies the machine's state, as far as the base depends on it.
func hostKey(root string, m mode, parts []hostPart) string {
	sum := sha256.New()
	fmt.Fprintln(sum, hostVersion, m, parts)
	look := func(path string) {
		if info, err := os.Lstat(path); err == nil {
			fmt.Fprintln(sum, path, info.Mode(), info.Size(), info.ModTime().UnixNano())
		}
	}
	for _, path := range append([]string{"etc", "etc/passwd", "etc/group", "etc/alternatives", "opt", "var/lib/dpkg/status"}, copied...) {
		look(filepath.Join(root, path))
	}
	folders := []string{filepath.Join(root, "usr", "local")} // where things are installed by hand
	for _, p := range parts {
		folders = append(folders, p.Host)
	}
	for _, folder := range folders {
		look(folder)
		entries, _ := os.ReadDir(folder)
		for _, entry := range entries {
			look(filepath.Join(folder, entry.Name()))
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:12])
}

// hostBase is the base for this machine as it is now, made by this call or found.
func (s *store) hostBase(ctx context.Context, progress func(string)) (*hostBase, error) {
	const root = "/"
	base, err := s.findBase(root)
	if err != nil || base.made {
		return base, err
	}
	unlock, err := s.lock(ctx, "base")
	if err != nil {
		return nil, err
	}
	defer unlock()
	if base, err = s.findBase(root); err != nil || base.made {
		return base, err
	}
	if progress != nil {
		progress("making a picture of this machine's folders for sandboxes to stand on; this is done once, and again when its packages change")
	}
	for range baseAttempts {
		now, err := s.makeBase(ctx, root, base)
		if err != nil {
			return nil, err
		}
		if now.Key == base.Key {
			return base, nil
		}
		base = now // packages were being installed: what was copied is neither the old state nor the new one
	}
	return nil, errChanging
}

// makeBase makes a base, unless the machine changes meanwhile. now is what the machine is then.
func (s *store) makeBase(ctx context.Context, root string, base *hostBase) (now *hostBase, err error) {
	d, err := s.draft()
	if err != nil {
		return nil, err
	}
	defer d.discard()
	b := baseMaker{ctx: ctx, root: root, dir: d.dir, mode: s.mode}
	if err := b.make(base.Parts); err != nil {
		return nil, fmt.Errorf("picture this machine's folders: %w", err)
	}
	now, err = s.findBase(root)
	if err != nil || now.Key != base.Key {
		return now, err
	}
	if err := writeJSON(filepath.Join(d.dir, "base.json"), base); err != nil {
		return nil, err
	}
	to := s.path("bases", base.Key)
	if exists(to) { // but it could not be read, for it would have been used
		if err := os.Rename(to, filepath.Join(d.dir, "broken")); err != nil {
			return nil, err
		}
	}
	if err := syncLayer(d.dir); err != nil {
		return nil, err
	}
	return now, s.publish(d.dir, to)
}

// baseAttempts is how often a base is made anew because the machine changed meanwhile.
const baseAttempts = 5

var errChanging = errors.New("this machine's packages or accounts keep changing: wait for what installs them, and start again")

// findBase looks for the base for the machine as it is now. One that is not there yet is not made.
func (s *store) findBase(root string) (*hostBase, error) {
	mounts, err := mountPoints()
	if err != nil {
		return nil, err
	}
	parts := hostParts(root, mounts, s.dir)
	key := hostKey(root, s.mode, parts)
	base := &hostBase{}
	if readJSON(s.path("bases", key, "base.json"), base) == nil {
		base.made = true
		return base, nil
	}
	return &hostBase{Key: key, OS: osName(root), Parts: parts}, nil
}

// baseMaker fills a base's folder.
type baseMaker struct {
	ctx  context.Context
	root string
	dir  string
	mode mode
}

func (b *baseMaker) make(parts []hostPart) error {
	root := filepath.Join(b.dir, rootPart)
	if err := makeFolder(root, 0o755); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(empty)) {
		if err := makeFolder(filepath.Join(root, name), empty[name]); err != nil {
			return err
		}
	}
	for _, step := range []func(root string) error{b.links, b.etc, b.state, b.options} {
		if err := step(root); err != nil {
			return err
		}
	}
	for _, p := range parts {
		if err := errors.Join(makeFolder(filepath.Join(root, p.At), 0o755), b.beside(p.At, root)); err != nil {
			return err
		}
		if p.At == "/nix" || p.At == "/gnu" {
			continue // nothing is ever installed into these by hand
		}
		own := filepath.Join(b.dir, p.part())
		if err := makeFolder(own, 0o755); err != nil {
			return err
		}
		if err := b.cover(p.Host, own); err != nil {
			return err
		}
	}
	return nil
}

// beside copies the links and files that stand beside a part and those above it: folders that are shown by their own
// folders only.
func (b *baseMaker) beside(at, root string) error {
	for dir := filepath.Dir(at); dir != "/"; dir = filepath.Dir(dir) {
		entries, _ := os.ReadDir(filepath.Join(b.root, dir))
		for _, entry := range entries {
			path := filepath.Join(dir, entry.Name())
			if entry.IsDir() || exists(filepath.Join(root, path)) {
				continue
			}
			if err := b.copyTree(path, root); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeFolder makes a folder with exactly this mode.
func makeFolder(path string, mode fs.FileMode) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// links copies the links of the root: /bin -> usr/bin and the like.
func (b *baseMaker) links(root string) error {
	for _, name := range shown {
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

func (b *baseMaker) etc(root string) error {
	if err := b.copyTree("etc", root); err != nil {
		return err
	}
	for _, name := range essential {
		if exists(filepath.Join(b.root, name)) && !exists(filepath.Join(root, name)) {
			return fmt.Errorf("/%s could not be copied: everybody must be able to read it", name)
		}
	}
	if err := b.shadow(root); err != nil {
		return err
	}
	if !b.mode.user() || !exists(filepath.Join(root, aptConfiguration)) {
		return nil
	}
	return errors.Join(
		os.WriteFile(filepath.Join(root, aptConfiguration, "99rollout-own"), []byte("DPkg::Pre-Install-Pkgs { \"/"+ownScript+"\"; };\n"), 0o644),
		os.WriteFile(filepath.Join(root, ownScript), []byte(ownFiles), 0o755),
		os.Chmod(filepath.Join(root, ownScript), 0o755),
	)
}

// ownFiles is run by apt with the paths of the archives that it is about to install. In a user namespace the machine's
// files belong to nobody, and a link to one cannot be made; but with links to the old files dpkg begins to replace
// them. So each of them is copied first, which makes it the sandbox's own.
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

// shadow makes up the files of passwords, without any.
func (b *baseMaker) shadow(root string) error {
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

func (b *baseMaker) state(root string) error {
	for _, path := range copied {
		if err := b.copyTree(path, root); err != nil {
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

func (b *baseMaker) options(root string) error {
	for _, name := range optionals(b.root) {
		if err := os.Symlink(filepath.Join(hostOpt, name), filepath.Join(root, optional, name)); err != nil {
			return err
		}
	}
	return nil
}

// copyTree copies a file or folder of the machine, below the same path in root. What is not public is left out;
// such folders are made, but empty.
func (b *baseMaker) copyTree(path, root string) error {
	return filepath.WalkDir(filepath.Join(b.root, path), func(from string, entry fs.DirEntry, err error) error {
		below, relErr := filepath.Rel(b.root, from)
		if relErr != nil || b.ctx.Err() != nil {
			return errors.Join(relErr, b.ctx.Err())
		}
		if err != nil {
			return ignored(err) // not there, not ours to read, or gone by now
		}
		if slices.Contains(private, below) {
			return skipped(entry)
		}
		info, err := entry.Info()
		if err != nil {
			return ignored(err)
		}
		to := filepath.Join(root, below)
		switch {
		case info.IsDir():
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				return err
			}
			if err := errors.Join(makeFolder(to, info.Mode().Perm()|info.Mode()&fs.ModeSetgid|0o700), b.own(to, info)); err != nil {
				return err
			}
			if !public(info) {
				return fs.SkipDir
			}
			return nil
		case !public(info):
			return nil
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(from)
			if err != nil {
				return ignored(err)
			}
			return os.Symlink(target, to) //nolint:gosec // nobody else writes to a draft
		}
		return b.copyFile(from, to, info)
	})
}

// ignored is nil for files that cannot be had: the picture goes without them.
func ignored(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

func skipped(entry fs.DirEntry) error {
	if entry.IsDir() {
		return fs.SkipDir
	}
	return nil
}

func (b *baseMaker) copyFile(from, to string, info fs.FileInfo) error {
	in, err := os.Open(from)
	if err != nil {
		return ignored(err)
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
	if err := errors.Join(err, out.Close(), b.own(to, info)); err != nil {
		return err
	}
	if err := os.Chmod(to, info.Mode().Perm()); err != nil {
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}

// own gives a copy the owner of the original, where there are owners.
func (b *baseMaker) own(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || b.mode != modeRoot {
		return nil
	}
	return os.Lchown(path, int(stat.Uid), int(stat.Gid))
}

// cover fills the folder that lies over a part of the machine: with marks (whiteouts) that hide what is not public,
// and in a user namespace with folders of its own.
func (b *baseMaker) cover(host, own string) error {
	type folder struct{ host, own string }
	level, made := []folder{{host, own}}, 0
	for len(level) > 0 {
		var next []folder
		for _, f := range level {
			if err := b.ctx.Err(); err != nil {
				return err
			}
			entries, err := os.ReadDir(f.host)
			if err != nil {
				continue // shown, but not to be read: nothing can be done below
			}
			for _, entry := range entries {
				from, to := filepath.Join(f.host, entry.Name()), filepath.Join(f.own, entry.Name())
				enter, err := b.coverOne(f.host, entry, to, made < maxSkeleton)
				if err != nil {
					return err
				}
				if enter {
					next = append(next, folder{from, to})
					made++
				}
			}
		}
		level = next
	}
	return nil
}

// coverOne covers one entry of the folder host. enter: there is more to cover below. room: there may be more folders.
func (b *baseMaker) coverOne(host string, entry fs.DirEntry, to string, room bool) (enter bool, err error) {
	info, err := entry.Info()
	if err != nil {
		return false, ignored(err)
	}
	if !public(info) {
		if err := b.mirror(host, filepath.Dir(to)); err != nil {
			return false, ignored(err)
		}
		if err := unix.Mknod(to, unix.S_IFCHR, 0); err != nil { // a whiteout
			return false, fmt.Errorf("hide %s: the store's file system allows no marks for that (%s): %w", filepath.Join(host, entry.Name()), onDisk, err)
		}
		return false, nil
	}
	if !info.IsDir() || !b.mode.user() || !room {
		return info.IsDir(), nil
	}
	return true, errors.Join(os.Mkdir(to, 0o755), os.Chmod(to, info.Mode().Perm()|0o700))
}

// mirror makes a folder, and its parents, with the modes and owners of the machine's, which it covers.
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
	return errors.Join(os.Mkdir(own, 0o755), b.own(own, info), os.Chmod(own, info.Mode()&(fs.ModePerm|fs.ModeSetgid|fs.ModeSticky)))
}

// mountPoints are the absolute paths that something is mounted on. Source: proc(5), /proc/[pid]/mountinfo.
func mountPoints() ([]string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var points []string
	for scanner := bufio.NewScanner(f); scanner.Scan(); {
		if fields := strings.Fields(scanner.Text()); len(fields) > 4 {
			points = append(points, strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(fields[4]))
		}
	}
	return points, nil
}

// osName is the machine's operating system in words. Source: os-release(5).
func osName(root string) string {
	for _, path := range []string{"etc/os-release", "usr/lib/os-release"} {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if name, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
				return strings.Trim(strings.TrimSpace(name), `"'`)
			}
		}
	}
	return "Linux"
}
