//go:build linux

package sandbox

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/internal/core/environment"
)

// hostBase is this machine's root file system as the lowest layer of sandboxes. Programs (/usr and
// similar directories) are the machine's own. Configuration and the package manager's state are
// copied once. All other directories are new and empty. Everything else is hidden: home
// directories, data, other people's work.
//
// In a user namespace the machine's directories appear as owned by the user nobody, and files could
// not be created in them. There the base has copies of each part's directories (not of their
// files), mounted between the part and the sandbox's changes.
type hostBase struct {
	Key   string     `json:"key"`
	OS    string     `json:"os"` // for display
	Parts []hostPart `json:"parts"`

	made bool
}

// hostPart is a directory of the machine that sandboxes show.
type hostPart struct {
	At   string `json:"at"`   // in the sandbox
	Host string `json:"host"` // on the machine
}

// part returns the part that is mounted at a path.
func (b *hostBase) part(at string) (hostPart, bool) {
	i := slices.IndexFunc(b.Parts, func(p hostPart) bool { return p.At == at })
	if i < 0 {
		return hostPart{}, false
	}
	return b.Parts[i], true
}

// rootPart is the directory of a layer for files outside of all other parts.
const rootPart = "root"

// part returns the name of the part's directory in layers.
func (p hostPart) part() string { return strings.ReplaceAll(p.At, "/", "+") }

// hostVersion must change when bases are made differently.
const hostVersion = "3"

var (
	// shownDirs lists the directories of the machine's root that sandboxes show if they exist.
	shownDirs = []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "nix", "gnu"}
	// optDir is shown by links to its entries, so that it can be removed as in an image.
	optDir = "opt"
	// hostOpt is where optDir is mounted.
	hostOpt = "/.host/opt"
	// emptyDirs lists the directories that every root has, with their modes.
	emptyDirs = map[string]fs.FileMode{
		"boot": 0o755, "home": 0o755, "media": 0o755, "mnt": 0o755, "opt": 0o755, "root": 0o700, "run": 0o755, "run/lock": 0o777 | fs.ModeSticky,
		"srv": 0o755, "tmp": 0o777 | fs.ModeSticky, "var": 0o755, "var/backups": 0o755, "var/cache": 0o755, "var/lib": 0o755, "var/local": 0o775,
		"var/log": 0o755, "var/mail": 0o775, "var/opt": 0o755, "var/spool": 0o755, "var/tmp": 0o777 | fs.ModeSticky,
		"var/cache/apt": 0o755, "var/cache/apt/archives": 0o755, "var/cache/apt/archives/partial": 0o700, "var/log/apt": 0o755,
		"var/lib/apt": 0o755, "var/lib/apt/lists": 0o755, "var/lib/apt/lists/partial": 0o700,
	}
	// copiedState lists the state of package managers and the registries that packages write to.
	copiedState = []string{
		"var/lib/dpkg", "var/lib/rpm", "var/lib/dnf", "var/lib/pacman", "var/lib/pam", "var/lib/ucf", "var/lib/python", "var/lib/systemd/deb-systemd-helper-enabled",
		"var/lib/alternatives", "var/lib/dictionaries-common", "var/lib/aspell", "var/lib/sgml-base", "var/lib/xml-core", "var/lib/emacsen-common",
		"var/lib/shells.state", "var/lib/apt/extended_states", "var/cache/debconf", "var/cache/ldconfig",
	}
	// privatePaths lists state of services in /etc that agents must not see, even if it is
	// world-readable.
	privatePaths = []string{"etc/machine-id", "etc/docker", "etc/containerd", "etc/kubernetes", "etc/hostname", "etc/hosts", "etc/resolv.conf", "etc/mtab"}
)

// requiredFiles lists the files that a usable base must have.
var requiredFiles = []string{"etc/passwd", "etc/group"}

// maxCoverDirs bounds the directories that are copied in a user namespace. The deepest are left
// out.
const maxCoverDirs = 60_000

// hostParts returns the directories that sandboxes show. A directory with a mount in it is replaced
// by its subdirectories, because overlays do not show mounts and the kernel refuses them in a user
// namespace. So is a directory that contains the store.
func hostParts(root string, mounts []string, storeDir string) []hostPart {
	var parts []hostPart
	var add func(at string)
	add = func(at string) {
		if environment.Within(at, storeDir) {
			return
		}
		inside := func(p string) bool { return p != at && environment.Within(p, at) }
		if !slices.ContainsFunc(mounts, inside) && !environment.Within(storeDir, at) {
			parts = append(parts, hostPart{At: at, Host: filepath.Join(root, at)})
			return
		}
		entries, err := os.ReadDir(filepath.Join(root, at))
		if err != nil {
			return
		}
		for _, entry := range entries {
			if info, err := entry.Info(); err == nil && info.IsDir() && worldReadable(info) {
				add(at + "/" + entry.Name())
			}
		}
	}
	for _, name := range shownDirs {
		if info, err := os.Lstat(filepath.Join(root, name)); err == nil && info.IsDir() {
			add("/" + name)
		}
	}
	below := func(p string) bool { return p != "/opt" && environment.Within(p, "/opt") }
	if len(publicOptEntries(root)) > 0 && !slices.ContainsFunc(mounts, below) && !environment.Within(storeDir, "/opt") {
		parts = append(parts, hostPart{At: hostOpt, Host: filepath.Join(root, optDir)})
	}
	return parts
}

// publicOptEntries returns the entries of /opt that every user may read.
func publicOptEntries(root string) []string {
	entries, err := os.ReadDir(filepath.Join(root, optDir))
	if err != nil {
		return nil
	}
	var names []string
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && worldReadable(info) && (info.IsDir() || info.Mode().IsRegular()) {
			names = append(names, entry.Name())
		}
	}
	return names
}

// worldReadable reports whether every user of the machine may read a file or enter a directory.
// Agents see no other files of the machine.
func worldReadable(info fs.FileInfo) bool {
	switch {
	case info.IsDir():
		return info.Mode()&0o005 == 0o005
	case info.Mode().IsRegular():
		return info.Mode()&0o004 != 0
	}
	return info.Mode()&fs.ModeSymlink != 0
}

// everyoneReads is worldReadable for the mode in a Stat_t.
func everyoneReads(mode uint32) bool {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return mode&0o005 == 0o005
	case unix.S_IFREG:
		return mode&0o004 != 0
	}
	return mode&unix.S_IFMT == unix.S_IFLNK
}

// hostKey returns a digest of the state of the machine that the base depends on.
func hostKey(root string, m mode, parts []hostPart) string {
	sum := sha256.New()
	fmt.Fprintln(sum, hostVersion, m, parts)
	look := func(path string) {
		if info, err := os.Lstat(path); err == nil {
			fmt.Fprintln(sum, path, info.Mode(), info.Size(), info.ModTime().UnixNano())
		}
	}
	for _, path := range append([]string{"etc", "etc/passwd", "etc/group", "etc/alternatives", "opt", "var/lib/dpkg/status"}, copiedState...) {
		look(filepath.Join(root, path))
	}
	dirs := []string{filepath.Join(root, "usr", "local")} // manual installations
	for _, p := range parts {
		dirs = append(dirs, p.Host)
	}
	for _, dir := range dirs {
		look(dir)
		entries, _ := os.ReadDir(dir)
		for _, entry := range entries {
			look(filepath.Join(dir, entry.Name()))
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:12])
}

// hostBase returns the base for the machine's present state. It makes the base if it is not in the
// store.
func (s *store) hostBase(ctx context.Context, progress func(string)) (*hostBase, error) {
	const root = "/"
	base, err := s.findBase(root)
	if err != nil || base.made {
		return base, err
	}
	// Before the lock: the trials that wait for it wait for the copy, too.
	if progress != nil {
		progress("copying this machine's configuration for sandboxes; this is done once, and again when its packages change")
	}
	unlock, err := s.lock(ctx, "base")
	if err != nil {
		return nil, err
	}
	defer unlock()
	if base, err = s.findBase(root); err != nil || base.made {
		return base, err
	}
	for range baseAttempts {
		now, err := s.makeBase(ctx, root, base)
		if err != nil {
			return nil, err
		}
		if now.Key == base.Key {
			return base, nil
		}
		base = now // packages were being installed: the copy mixes both states
	}
	return nil, errChanging
}

// makeBase makes a base, unless the machine changes meanwhile. now is the machine's state at the
// end.
func (s *store) makeBase(ctx context.Context, root string, base *hostBase) (now *hostBase, err error) {
	d, err := s.draft()
	if err != nil {
		return nil, err
	}
	defer d.discard()
	b := baseMaker{root: root, dir: d.dir, mode: s.mode}
	if err := b.make(ctx, base.Parts); err != nil {
		return nil, fmt.Errorf("copy this machine's configuration: %w", err)
	}
	now, err = s.findBase(root)
	if err != nil || now.Key != base.Key {
		return now, err
	}
	if err := writeJSON(filepath.Join(d.dir, "base.json"), base); err != nil {
		return nil, err
	}
	to := s.path("bases", base.Key)
	if exists(to) { // unreadable, or it would have been used
		if err := os.Rename(to, filepath.Join(d.dir, "broken")); err != nil {
			return nil, err
		}
	}
	if err := syncLayer(d.dir); err != nil {
		return nil, err
	}
	return now, s.publish(d.dir, to)
}

// baseAttempts bounds how often a base is made again because the machine changed meanwhile.
const baseAttempts = 5

var errChanging = errors.New("this machine's packages or accounts keep changing: wait for what installs them, and start again")

// findBase returns the base for the machine's present state. made is set if it is in the store.
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

// mountPoints returns the absolute paths of all mounts. Source: proc(5), /proc/[pid]/mountinfo.
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

// osName returns the display name of the machine's operating system. Source: os-release(5).
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
