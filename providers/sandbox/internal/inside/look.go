//go:build linux

package inside

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/org/rollout-action/providers/sandbox/internal/wire"
)

// unixStat is what the system tells of a file.
type unixStat = syscall.Stat_t

// look tells what is at a path, following links.
func look(asked string) (*wire.Info, error) {
	found := &wire.Info{Path: resolve(path.Clean(asked))}
	info, err := os.Stat(found.Path)
	if gone(err) || errors.Is(err, unix.ELOOP) {
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

// resolve follows the links in a path as far as it exists.
func resolve(asked string) string {
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

// remove removes what is at a path, which may be nothing. Links in its parents are followed.
func remove(asked string) error {
	dir, name := path.Split(path.Clean(asked))
	if name == "" {
		return errors.New("the root cannot be removed")
	}
	root, err := os.OpenRoot(path.Clean(dir))
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	if err := realFiles(root); err != nil {
		return err
	}
	return root.RemoveAll(name)
}

// owner turns names into numbers, for files. Without a group it is the user's own or, for a number, that
// number.
func owner(user, group string) (uid, gid int, err error) {
	id, isNumber := number(user)
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
