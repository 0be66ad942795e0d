package action

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/org/rollout-action/internal/app/host"
	"github.com/org/rollout-action/internal/lib/ghvars"
)

// handOver makes the owner of the workspace the owner of files that root wrote below it. In a
// container action everything is written by root, and the next checkout on the same machine could
// not remove it (actions/runner#434). paths are files and directories, relative to the current
// directory; missing ones, and those outside of the workspace, are skipped.
func handOver(h *host.Host, paths []string) {
	workspace := ghvars.Read(h.Getenv).Workspace
	info, err := os.Stat(workspace)
	if workspace == "" || err != nil || os.Geteuid() != 0 {
		return
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 && owner.Gid == 0 {
		return
	}
	// Links in the workspace are untrusted: through this root none leads out of it.
	root, err := os.OpenRoot(workspace)
	if err != nil {
		h.Output.Warn(fmt.Sprintf("results stay root's: %v", err))
		return
	}
	defer root.Close()
	to := handover{root: root, uid: int(owner.Uid), gid: int(owner.Gid)}
	for _, path := range paths {
		abs, err := filepath.Abs(h.Path(path))
		if err != nil {
			continue
		}
		if below, err := filepath.Rel(workspace, abs); err == nil && filepath.IsLocal(below) {
			to.give(filepath.ToSlash(below))
		}
	}
	if len(to.errs) > 0 {
		h.Output.Warn(fmt.Sprintf("results stay root's: %v", errors.Join(to.errs...)))
	}
}

type handover struct {
	root     *os.Root
	uid, gid int
	errs     []error // the first few
}

// give hands over a path, the tree below it, and the directories above it that were created for it.
func (h *handover) give(path string) {
	if path == "." {
		return // results are never the workspace itself
	}
	for dir := filepath.Dir(path); dir != "."; dir = filepath.Dir(dir) {
		info, err := h.root.Lstat(dir)
		h.one(dir, info, err)
	}
	_ = fs.WalkDir(h.root.FS(), path, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			h.one(path, nil, err)
			return nil
		}
		info, err := entry.Info()
		h.one(path, info, err)
		return nil
	})
}

// one hands over a file that root owns and that has no other name: we create no hard links.
func (h *handover) one(path string, info fs.FileInfo, err error) {
	if err == nil {
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok || stat.Uid != 0 || stat.Nlink > 1 && !info.IsDir() {
			return
		}
		err = h.root.Lchown(path, h.uid, h.gid)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && len(h.errs) < 3 {
		h.errs = append(h.errs, err)
	}
}
