//go:build linux

package initproc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/providers/internal/initwire"
)

type unixStat = syscall.Stat_t

// stat describes the file at a path. It follows links.
func stat(asked string) (*initwire.Info, error) {
	found := &initwire.Info{Path: resolveLinks(path.Clean(asked))}
	info, err := os.Stat(found.Path)
	if vanished(err) || errors.Is(err, unix.ELOOP) {
		return found, nil
	}
	if err != nil {
		return nil, err
	}
	found.Exists, found.Dir = true, info.IsDir()
	if !found.Dir {
		return found, nil
	}
	entries, err := os.ReadDir(found.Path)
	for _, entry := range entries {
		found.Names = append(found.Names, entry.Name())
	}
	return found, err
}

// resolveLinks resolves the links in the part of a path that exists.
func resolveLinks(asked string) string {
	rest := ""
	for at := asked; ; at = path.Dir(at) {
		if resolved, err := filepath.EvalSymlinks(at); err == nil {
			return path.Join(resolved, rest)
		}
		if at == "/" {
			return asked
		}
		rest = path.Join(path.Base(at), rest)
	}
}

// remove removes the file or directory at a path, if there is one. It follows links in the path's
// parents.
func remove(asked string) error {
	dir, name := path.Split(path.Clean(asked))
	if name == "" {
		return errors.New("the root cannot be removed")
	}
	root, err := os.OpenRoot(path.Clean(dir))
	if vanished(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	if err := refuseKernelFiles(root); err != nil {
		return err
	}
	return root.RemoveAll(name)
}

// lookupOwner returns the ids of a user and a group. Without a group it returns the user's own
// group or, for a number, the same number.
func lookupOwner(user, group string) (uid, gid int, err error) {
	id, isNumber := parseID(user)
	found, known, err := lookup(user, id, isNumber)
	if err != nil {
		return 0, 0, err
	}
	switch {
	case isNumber:
		uid, gid = int(id), int(id)
	case known:
		uid, gid = int(found.uid), int(found.gid)
	default:
		return 0, 0, fmt.Errorf("there is no user %q in /etc/passwd", user)
	}
	if group == "" {
		return uid, gid, nil
	}
	groups, err := readLines("/etc/group")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, 0, err
	}
	n, err := groupID(groups, group)
	return uid, int(n), err
}
